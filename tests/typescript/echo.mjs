// The example `echo`, by stdio and by HTTP: many calls, large ones, and handlers that misbehave.

import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/client';

import { equal, includes, ok, rejects } from './checks.mjs';
import { HANDSHAKE, STATELESS, call, text } from './fixtures.mjs';
import { echoOverHttp, echoOverStdio } from './wire.mjs';

const PINNED = { versionNegotiation: { mode: { pin: STATELESS } } };
const AUTO = { versionNegotiation: { mode: 'auto' } };
const TOOLS = 21;
const TIMED_OUT = 'REQUEST_TIMEOUT';

/** Versions that a client of today may still ask for. */
const VERSIONS = SUPPORTED_PROTOCOL_VERSIONS.filter((version) => version <= HANDSHAKE && version >= '2024-11-05');

export const sections = [
  ...VERSIONS.map((version) => [
    `stdio ${version}`,
    () => echoOverStdio({ supportedProtocolVersions: [version] }, (link) => greets(version, link)),
  ]),
  [`stdio ${STATELESS}`, () => echoOverStdio(PINNED, (link) => greets(STATELESS, link))],
  ['stdio auto', () => echoOverStdio(AUTO, (link) => greets(STATELESS, link))],
  ['http auto', () => echoOverHttp(AUTO, (link) => greets(STATELESS, link))],
  ...[
    ['stdio', echoOverStdio, {}],
    ['stdio stateless', echoOverStdio, PINNED],
    ['http', echoOverHttp, {}],
    ['http stateless', echoOverHttp, PINNED],
  ].flatMap(([name, echo, how]) => [
    [`${name} load`, () => echo(how, load)],
    [`${name} cancellation`, () => echo(how, cancellation)],
    [`${name} hazards`, () => echo(how, hazards)],
  ]),
];

async function greets(version, { client }) {
  equal('the version', client.getNegotiatedProtocolVersion(), version);
  const { tools } = await client.listTools();
  includes('the tools', tools.map((tool) => tool.name), ['echo', 'panic', 'hang', 'block', 'slow']);
  ok('and twenty others', tools.length >= TOOLS + 4);
  equal('an echo', text(await call(client, 'echo', { text: 'hello' })), 'hello');
}

async function load({ client }) {
  const hard = ['', 'line\nbreak\r\n', 'tab\t"quoted"\\', 'zwölf ☃ 🚂', '\u2028\u0000\u007f', 'data: x\n\nid: 1\n\n'];
  for (const given of hard) {
    equal(`${JSON.stringify(given)} comes back`, text(await call(client, 'echo', { text: given })), given);
  }
  const long = 'x'.repeat(1 << 20);
  ok('a megabyte comes back', text(await call(client, 'echo', { text: long })) === long);
  const numbers = Array.from({ length: 100 }, (_, number) => String(number));
  const echoes = await Promise.all(numbers.map((number) => call(client, 'echo', { text: number })));
  equal('a hundred calls at once, each its own', echoes.map(text), numbers);
}

async function cancellation({ client, wire }) {
  const cancel = new AbortController();
  const cancelled = call(client, 'slow', { ms: 300 }, { signal: cancel.signal });
  const fast = call(client, 'echo', { text: 'meanwhile' });
  equal('a slow call holds up no other', text(await fast), 'meanwhile');
  const id = wire.sent.find((message) => message.params?.name === 'slow')?.id;
  cancel.abort('changed my mind');
  await rejects('the call is cancelled', cancelled);
  // As long again, so that an answer that was on its way would have come.
  ok('another one is not', !(await call(client, 'slow', { ms: 600 })).isError);
  equal('a cancelled call is never answered', wire.answers(id), []);
  equal('and the client has nothing to complain of', wire.errors.map(String), []);
}

async function hazards({ client }) {
  const outcome = (promise) => promise.then((result) => result.isError === true, (error) => error.code === -32603);
  ok('a panic is an error of its call', await outcome(call(client, 'panic')));
  ok('what hangs ends at its deadline', await outcome(call(client, 'hang')));
  const blocked = call(client, 'block', { ms: 500 });
  equal('what blocks holds up no other', text(await call(client, 'echo', { text: 'meanwhile' })), 'meanwhile');
  await blocked.catch(() => undefined);
  const late = await rejects('a client that does not wait', call(client, 'hang', {}, { timeout: 100 }));
  equal('gives up', late?.code, TIMED_OUT);
  equal('the server still serves', text(await call(client, 'echo', { text: 'still here' })), 'still here');
}
