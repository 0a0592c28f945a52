// 2026-07-28 over HTTP: no handshake, no session, and answers in place of questions.

import { LOG_LEVEL_META_KEY, SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/client';

import { equal, includes, ok, rejects, until } from './checks.mjs';
import * as fixtures from './fixtures.mjs';
import { STATELESS, WATCHED, call, text } from './fixtures.mjs';
import { ABLE, conformance } from './wire.mjs';

const INVALID_PARAMS = -32602;
const MISSING_CAPABILITY = -32021;
const ROOTS = { roots: [{ uri: 'file:///one', name: 'one' }] };

const PINNED = { versionNegotiation: { mode: { pin: STATELESS } } };
const stateless = (how, body) => conformance({ ...PINNED, ...how }, body);

/** Answers to whatever a tool may want to know. */
const HANDLERS = {
  'elicitation/create': ({ requestedSchema }) => ({ action: 'accept', content: filled(requestedSchema) }),
  'sampling/createMessage': () => ({ model: 'test', role: 'assistant', content: { type: 'text', text: 'Paris' } }),
  'roots/list': () => ROOTS,
};
const VALUES = { name: 'Ada', color: 'green', context: 'some context', ok: true };
const filled = (schema) => Object.fromEntries(Object.keys(schema.properties).map((name) => [name, VALUES[name] ?? 'anything']));
const ANSWERING = { capabilities: ABLE, handlers: HANDLERS };

export const sections = [
  ['stateless discover', () => stateless({}, discover)],
  ['stateless probe', () => conformance({ versionNegotiation: { mode: 'auto' } }, probe)],
  ['stateless tools', () => stateless({}, fixtures.tools)],
  ['stateless structured', () => stateless({}, fixtures.structured)],
  ['stateless progress', () => stateless({}, fixtures.progress)],
  ['stateless logging', () => stateless({}, logging)],
  ['stateless resources', () => stateless({}, (link) => fixtures.resources(link, INVALID_PARAMS))],
  ['stateless prompts', () => stateless({}, fixtures.prompts)],
  ['stateless completion', () => stateless({}, fixtures.completion)],
  ['stateless pagination', () => stateless({}, fixtures.pagination)],
  ['stateless mistakes', () => stateless({}, fixtures.mistakes)],
  ['stateless concurrency', () => stateless({}, fixtures.concurrency)],
  ['stateless caching', () => stateless({}, caching)],
  ['stateless headers', () => stateless({}, headers)],
  ['stateless input', () => stateless(ANSWERING, input)],
  ['stateless rounds', () => stateless(ANSWERING, rounds)],
  ['stateless input by hand', () => stateless({ ...ANSWERING, inputRequired: { autoFulfill: false } }, byHand)],
  ['stateless capabilities', () => stateless({ capabilities: { elicitation: {} }, inputRequired: { autoFulfill: false } }, capabilities)],
  ['stateless listening', () => stateless({}, listening)],
  ['stateless list changes', listChanges],
];

async function discover({ client, wire, transport }) {
  equal('the version', client.getNegotiatedProtocolVersion(), STATELESS);
  equal('the era', client.getProtocolEra(), 'modern');
  const found = await client.discover();
  includes('the versions', found.supportedVersions, [STATELESS]);
  includes('capabilities', Object.keys(found.capabilities), ['tools', 'resources', 'prompts', 'completions']);
  ok('the server has a name', client.getServerVersion()?.name);
  equal('no session', transport.sessionId, undefined);
  equal('no handshake', wire.sent.filter((message) => message.method === 'initialize'), []);
  const prior = { kind: 'modern', discover: client.getDiscoverResult() };
  await conformance({ prior }, async ({ client, wire }) => {
    await call(client, 'test_simple_text');
    equal('what was discovered serves once more', wire.sent.map((message) => message.method), ['tools/call']);
  });
}

async function probe({ client, wire }) {
  equal('the newest version is found', client.getNegotiatedProtocolVersion(), STATELESS);
  equal('by one question', wire.sent.map((message) => message.method), ['server/discover']);
  equal('a call', (await call(client, 'test_simple_text')).content.length, 1);
}

async function logging({ client, wire }) {
  await call(client, 'test_logging_tool');
  equal('nothing is logged unless asked for', wire.notifications('notifications/message'), []);
  await client.callTool({ name: 'test_logging_tool', _meta: { [LOG_LEVEL_META_KEY]: 'debug' } });
  ok('and something if it is', wire.notifications('notifications/message').length > 0);
}

async function caching({ client }) {
  for (const list of ['listTools', 'listResources', 'listResourceTemplates', 'listPrompts']) {
    cacheable(list, await client[list]());
  }
  cacheable('readResource', await client.readResource({ uri: 'test://static-text' }));
}

function cacheable(what, { ttlMs, cacheScope }) {
  ok(`${what} says how long it holds`, Number.isInteger(ttlMs) && ttlMs >= 0);
  ok(`${what} says for whom`, ['public', 'private'].includes(cacheScope));
}

async function headers({ client, wire }) {
  const { tools } = await client.listTools();
  const mirrored = ([, schema]) => schema['x-mcp-header'] !== undefined && schema.type === 'string';
  const tool = tools.find((tool) => Object.entries(tool.inputSchema.properties ?? {}).some(mirrored));
  if (!ok('there is a tool with an argument in a header', tool)) return;
  const [property, schema] = Object.entries(tool.inputSchema.properties).find(mirrored);
  for (const value of ['plain', 'zwölf ☃', ' padded ', '=?base64?no?=']) {
    const result = await call(client, tool.name, { [property]: value });
    includes(`${JSON.stringify(value)} arrives`, text(result), [value]);
    const { headers, status } = wire.exchanges.at(-1);
    equal('the headers', [headers.get('mcp-method'), headers.get('mcp-name'), status], ['tools/call', tool.name, 200]);
    ok('the argument is among them', headers.has(`mcp-param-${schema['x-mcp-header']}`));
  }
}

async function input({ client, wire }) {
  const elicited = await call(client, 'test_input_required_result_elicitation');
  includes('a form', text(elicited), ['Hello, Ada!']);
  includes('sampling', text(await call(client, 'test_input_required_result_sampling')), ['Paris']);
  const listed = await call(client, 'test_input_required_result_list_roots');
  ok('roots', !listed.isError && /1|one/.test(text(listed)));
  const several = await call(client, 'test_input_required_result_multiple_inputs');
  ok('several at once', !several.isError && text(several));
  const { messages } = await client.getPrompt({ name: 'test_input_required_result_prompt' });
  includes('for a prompt', messages.map((message) => message.content.text).join('\n'), ['some context']);
  equal('nothing is asked but in results', wire.received.filter((message) => message.method && 'id' in message), []);
}

async function rounds({ client, wire }) {
  includes('the state comes back', text(await call(client, 'test_input_required_result_request_state')), ['state-ok']);
  const before = wire.results().length;
  const result = await call(client, 'test_input_required_result_multi_round');
  ok('three rounds', !result.isError && text(result));
  const answers = wire.results().slice(before);
  equal('their results', answers.map((answer) => answer.resultType), ['input_required', 'input_required', 'complete']);
  const [first, second] = answers;
  equal('what they ask', [first, second].map((answer) => Object.keys(answer?.inputRequests ?? {})), [['step1'], ['step2']]);
  ok('the state changes', first?.requestState !== second?.requestState);
}

async function byHand({ client }) {
  const name = 'test_input_required_result_tampered_state';
  const asked = await call(client, name, {}, { allowInputRequired: true });
  equal('it asks', asked.resultType, 'input_required');
  ok('it seals what it knows', asked.requestState);
  const [key] = Object.keys(asked.inputRequests ?? {});
  const inputResponses = { [key]: { action: 'accept', content: { ok: true } } };
  const again = (requestState) => client.callTool({ name, arguments: {}, inputResponses, requestState }, { allowInputRequired: true });
  const whole = await again(asked.requestState);
  ok('the answer is taken', whole.resultType !== 'input_required' && !whole.isError);
  const middle = Math.floor(asked.requestState.length / 2);
  const other = asked.requestState[middle] === 'A' ? 'B' : 'A';
  const bent = asked.requestState.slice(0, middle) + other + asked.requestState.slice(middle + 1);
  const refused = await rejects('a state that was changed', again(bent));
  ok('is an error of the protocol', Number.isInteger(refused?.code));

  const elicitation = 'test_input_required_result_elicitation';
  const wrong = await client.callTool({ name: elicitation, arguments: {}, inputResponses: { other: { action: 'accept', content: {} } } }, { allowInputRequired: true });
  equal('a wrong answer is asked for again', wrong.resultType, 'input_required');
}

async function capabilities({ client }) {
  const refused = await rejects('a tool that needs sampling', call(client, 'test_missing_capability'));
  equal('is refused', refused?.code, MISSING_CAPABILITY);
  equal('and says what it needs', refused?.data?.requiredCapabilities, { sampling: {} });
  const asked = await call(client, 'test_input_required_result_capabilities', {}, { allowInputRequired: true });
  const methods = Object.values(asked.inputRequests ?? {}).map((request) => request.method);
  equal('only what the client can do is asked', [...new Set(methods)], ['elicitation/create']);
}

async function listening({ client, wire }) {
  const kinds = ['notifications/tools/list_changed', 'notifications/prompts/list_changed', 'notifications/resources/updated'];
  const [tools, prompts, updated] = kinds.map((method) => () => wire.notifications(method));
  const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [WATCHED] });
  equal('what is honoured', subscription.honoredFilter.toolsListChanged, true);
  equal('for which resources', subscription.honoredFilter.resourceSubscriptions, [WATCHED]);
  await call(client, 'test_trigger_prompt_change');
  await call(client, 'test_trigger_tool_change');
  await until('a change of tools', () => tools().length > 0);
  await call(client, 'test_trigger_resource_update');
  await until('an update', () => updated().length > 0);
  equal('of that resource', updated()[0]?.params.uri, WATCHED);
  equal('nothing that was not asked for', prompts(), []);
  const ids = [...tools(), ...updated()].map((message) => message.params._meta?.[SUBSCRIPTION_ID_META_KEY]);
  equal('each names its subscription', [...new Set(ids)], [wire.lastId('subscriptions/listen')]);
  await subscription.close();
  equal('it is closed', await subscription.closed, 'local');
  const before = tools().length;
  await call(client, 'test_trigger_tool_change');
  await client.discover();
  equal('nothing comes after that', tools().length, before);
}

async function listChanges() {
  const changed = [];
  const listChanged = { prompts: { debounceMs: 0, onChanged: (error, items) => void changed.push(error ?? items) } };
  await stateless({ listChanged }, async ({ client }) => {
    ok('the client listens by itself', client.autoOpenedSubscription);
    await call(client, 'test_trigger_prompt_change');
    await until('a change of prompts', () => changed.length > 0);
    ok('the client has fetched them', Array.isArray(changed[0]));
  });
}
