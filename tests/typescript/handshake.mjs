// The versions that begin with a handshake, over HTTP.

import { equal, includes, ok, rejects, until } from './checks.mjs';
import * as fixtures from './fixtures.mjs';
import { HANDSHAKE, WATCHED, call, text } from './fixtures.mjs';
import { ABLE, conformance } from './wire.mjs';

const NOT_FOUND = -32002;
const EARLIER = ['2025-06-18', '2025-03-26'];
const ROOTS = { roots: [{ uri: 'file:///one', name: 'one' }, { uri: 'file:///two' }] };

export const sections = [
  ['handshake', () => conformance({ capabilities: ABLE }, handshake)],
  ...EARLIER.map((version) => [
    `handshake ${version}`,
    () => conformance({ supportedProtocolVersions: [version] }, (link) => earlier(version, link)),
  ]),
  ['handshake tools', () => conformance({}, fixtures.tools)],
  ['handshake structured', () => conformance({}, fixtures.structured)],
  ['handshake progress', () => conformance({}, fixtures.progress)],
  ['handshake logging', () => conformance({}, logging)],
  ['handshake sampling', () => conformance({ capabilities: ABLE, handlers: { 'sampling/createMessage': sample } }, sampling)],
  ['handshake form', form],
  ['handshake defaults', () => conformance({ capabilities: ABLE, handlers: { 'elicitation/create': accept({}) } }, defaults)],
  ['handshake enums', () => conformance({ capabilities: ABLE, handlers: { 'elicitation/create': accept(CHOICE) } }, enums)],
  ['handshake url', () => conformance({ capabilities: ABLE, handlers: { 'elicitation/create': () => ({ action: 'accept' }) } }, url)],
  ['handshake roots', () => conformance({ capabilities: ABLE, handlers: { 'roots/list': () => ROOTS } }, roots)],
  ['handshake unable', () => conformance({}, unable)],
  ['handshake resources', () => conformance({}, (link) => fixtures.resources(link, NOT_FOUND))],
  ['handshake subscriptions', () => conformance({}, subscriptions)],
  ['handshake prompts', () => conformance({}, fixtures.prompts)],
  ['handshake completion', () => conformance({}, fixtures.completion)],
  ['handshake pagination', () => conformance({}, fixtures.pagination)],
  ['handshake mistakes', () => conformance({}, fixtures.mistakes)],
  ['handshake concurrency', () => conformance({}, fixtures.concurrency)],
  ['handshake list changes', listChanges],
  ['handshake resumption', () => conformance({}, resumption)],
  ['handshake session', () => conformance({}, session)],
];

async function handshake({ client, wire, transport }) {
  equal('the version', client.getNegotiatedProtocolVersion(), HANDSHAKE);
  equal('the era', client.getProtocolEra(), 'legacy');
  ok('the server has a name and a version', client.getServerVersion()?.name && client.getServerVersion()?.version);
  const can = client.getServerCapabilities();
  includes('capabilities', Object.keys(can), ['tools', 'resources', 'prompts', 'logging', 'completions']);
  equal('subscriptions are announced', can.resources.subscribe, true);
  equal('list changes are announced', [can.tools.listChanged, can.prompts.listChanged], [true, true]);
  ok('the session has an id of visible characters', /^[\x21-\x7e]{16,}$/.test(transport.sessionId ?? ''));
  equal('ping', await client.ping(), {});
  const [, ...later] = wire.exchanges;
  ok('the session is kept', later.every(({ headers }) => headers.get('mcp-session-id') === transport.sessionId));
  equal('the notification is taken', later.find(({ body }) => body?.includes('notifications/initialized'))?.status, 202);
}

async function earlier(version, { client }) {
  equal('the version', client.getNegotiatedProtocolVersion(), version);
  equal('ping', await client.ping(), {});
  ok('tools are listed', (await client.listTools()).tools.length > 0);
  equal('a call', (await call(client, 'test_simple_text')).content.length, 1);
  ok('a resource is read', (await client.readResource({ uri: 'test://static-text' })).contents.length === 1);
}

async function logging({ client, wire }) {
  const seen = [];
  client.setNotificationHandler('notifications/message', ({ params }) => void seen.push(params));
  equal('setLevel', await client.setLoggingLevel('debug'), {});
  await call(client, 'test_tool_with_logging');
  await until('three messages', () => seen.length === 3);
  equal('their level', [...new Set(seen.map((message) => message.level))], ['info']);
  ok('they carry something', seen.every((message) => message.data !== undefined));
  await client.setLoggingLevel('error');
  await call(client, 'test_tool_with_logging');
  equal('none below the level', wire.notifications('notifications/message').length, 3);
}

const sample = ({ messages }) => ({
  model: 'test',
  role: 'assistant',
  stopReason: 'endTurn',
  content: { type: 'text', text: `heard ${messages[0].content.text}` },
});

async function sampling({ client, wire }) {
  const result = await call(client, 'test_sampling', { prompt: 'a question' });
  const [asked] = wire.requests('sampling/createMessage');
  equal('the request', [asked?.params.messages[0].role, asked?.params.maxTokens], ['user', 100]);
  equal('the answer arrives', text(result), 'LLM response: heard a question');
}

const accept = (content) => () => ({ action: 'accept', content });

async function form() {
  const content = { username: 'ada', email: 'ada@example.org' };
  for (const answer of [{ action: 'accept', content }, { action: 'decline' }, { action: 'cancel' }]) {
    const handlers = { 'elicitation/create': () => answer };
    await conformance({ capabilities: ABLE, handlers }, async ({ client, wire }) => {
      const result = await call(client, 'test_elicitation', { message: 'Who are you?' });
      const [{ params }] = wire.requests('elicitation/create');
      equal('the message', params.message, 'Who are you?');
      equal('what is required', [...(params.requestedSchema.required ?? [])].sort(), ['email', 'username']);
      includes(`${answer.action} arrives`, text(result), [answer.action, ...Object.values(answer.content ?? {})]);
    });
  }
}

async function defaults({ client, wire }) {
  const result = await call(client, 'test_elicitation_sep1034_defaults');
  const [{ params }] = wire.requests('elicitation/create');
  const given = Object.entries(params.requestedSchema.properties).map(([name, field]) => [name, field.default]);
  equal('the defaults', Object.fromEntries(given), { name: 'John Doe', age: 30, score: 95.5, status: 'active', verified: true });
  includes('what the client filled in arrives', text(result), ['John Doe', '95.5']);
}

const CHOICE = {
  untitledSingle: 'option1',
  titledSingle: 'value1',
  legacyEnum: 'opt1',
  untitledMulti: ['option1'],
  titledMulti: ['value1'],
};

async function enums({ client, wire }) {
  // The choice may be none of the server's; then the call fails, but it was asked all the same.
  await call(client, 'test_elicitation_sep1330_enums').catch(() => undefined);
  const [{ params }] = wire.requests('elicitation/create');
  const { untitledSingle, titledSingle, legacyEnum, untitledMulti, titledMulti } = params.requestedSchema.properties;
  ok('an enumeration', untitledSingle.enum.length > 0);
  ok('one with titles', titledSingle.oneOf.every((option) => option.const && option.title));
  equal('one with names', legacyEnum.enumNames.length, legacyEnum.enum.length);
  ok('several of one', untitledMulti.type === 'array' && untitledMulti.items.enum.length > 0);
  ok('several of one with titles', titledMulti.items.anyOf.every((option) => option.const && option.title));
}

async function url({ client, wire }) {
  const done = [];
  client.setNotificationHandler('notifications/elicitation/complete', ({ params }) => void done.push(params));
  const result = await call(client, 'test_elicitation_url');
  const [asked] = wire.requests('elicitation/create');
  equal('the mode', asked?.params.mode, 'url');
  ok('there is a link and an id', URL.canParse(asked?.params.url) && asked?.params.elicitationId);
  includes('consent arrives', text(result), ['accept']);
  await until('it is said to be complete', () => done.length === 1);
  equal('which one', done[0]?.elicitationId, asked?.params.elicitationId);
}

async function roots({ client, wire }) {
  const result = await call(client, 'test_list_roots');
  equal('they are asked for', wire.requests('roots/list').length, 1);
  includes('they arrive', text(result), ROOTS.roots.map((root) => root.uri));
  await client.sendRootsListChanged();
  equal('a change of them is taken', wire.exchanges.at(-1).status, 202);
}

async function unable({ client, wire }) {
  const asking = [
    ['test_sampling', { prompt: 'a question' }],
    ['test_elicitation', { message: 'Who are you?' }],
    ['test_list_roots', {}],
  ];
  for (const [tool, args] of asking) {
    const outcome = await call(client, tool, args).then((result) => result.isError === true, () => true);
    ok(`${tool} fails where the client cannot be asked`, outcome);
  }
  equal('nothing is asked of it', wire.received.filter((message) => message.method && 'id' in message), []);
}

async function subscriptions({ client, wire }) {
  const updates = () => wire.notifications('notifications/resources/updated');
  await call(client, 'test_trigger_resource_update');
  equal('no updates without a subscription', updates(), []);
  equal('subscribe', await client.subscribeResource({ uri: WATCHED }), {});
  await call(client, 'test_trigger_resource_update');
  await until('an update', () => updates().length === 1);
  equal('of that resource', updates()[0]?.params.uri, WATCHED);
  equal('unsubscribe', await client.unsubscribeResource({ uri: WATCHED }), {});
  await call(client, 'test_trigger_resource_update');
  await client.ping();
  equal('no updates after that', updates().length, 1);
  await rejects('a resource that is not there', client.subscribeResource({ uri: 'test://nowhere' }));
  equal('is not found', wire.lastError(), NOT_FOUND);
}

async function listChanges() {
  const changed = { tools: [], prompts: [] };
  const handler = (kind) => ({ debounceMs: 0, onChanged: (error, items) => void changed[kind].push(error ?? items) });
  const listChanged = { tools: handler('tools'), prompts: handler('prompts') };
  await conformance({ listChanged }, async ({ client }) => {
    await call(client, 'test_trigger_tool_change');
    await until('a change of tools', () => changed.tools.length > 0);
    ok('the client has fetched them', Array.isArray(changed.tools[0]));
    await call(client, 'test_trigger_prompt_change');
    await until('a change of prompts', () => changed.prompts.length > 0);
    ok('the client has fetched them too', Array.isArray(changed.prompts[0]));
  });
}

async function resumption({ client, wire }) {
  const tokens = [];
  const result = await call(client, 'test_reconnection', {}, { onresumptiontoken: (token) => tokens.push(token) });
  ok('the result comes by another stream', !result.isError && text(result));
  const resumed = wire.exchanges.filter(({ method, headers }) => method === 'GET' && headers.has('last-event-id'));
  ok('the stream was resumed', resumed.length > 0);
  ok('from where it broke off', tokens.includes(resumed[0]?.headers.get('last-event-id')));
  equal('the resumed stream is one of events', [resumed[0]?.status, resumed[0]?.type?.split(';')[0]], [200, 'text/event-stream']);
  equal('one answer', wire.answers(wire.lastId('tools/call')).length, 1);
}

async function session({ client, wire, transport }) {
  const joined = { sessionId: transport.sessionId, protocolVersion: client.getNegotiatedProtocolVersion() };
  await conformance({ session: joined }, async ({ client }) => {
    equal('another connection joins the session', await client.ping(), {});
  });
  equal('the session outlives that connection', await client.ping(), {});
  await conformance({}, async ({ transport }) => {
    ok('another client gets a session of its own', transport.sessionId !== joined.sessionId);
  });
  await transport.terminateSession();
  const ended = wire.exchanges.at(-1);
  equal('the session is ended', [ended.method, ended.status < 300], ['DELETE', true]);
  await conformance({ session: joined }, async ({ client, wire }) => {
    await rejects('the session is gone', client.ping());
    equal('as the status says', wire.exchanges.find(({ body }) => body?.includes('"ping"'))?.status, 404);
  });
}
