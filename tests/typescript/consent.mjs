// The example `expenses` over HTTP, where a person must agree before money moves.

import { equal, includes, ok, rejects } from './checks.mjs';
import { HANDSHAKE, STATELESS, call, text } from './fixtures.mjs';
import { expenses } from './wire.mjs';

const KEY = 'dev.interlock/approval';
const REFUSAL = 'dev.interlock/refusal';
const WORKFLOW = 'dev.interlock/workflow';
const [NO_SUCH_WORKFLOW, PENDING, NOT_IN_STATE, DENIED, FINISHED] = [1021, 1071, 1081, 1083, 1085];
const INVALID_PARAMS = -32602;

const CLAIM = { amount: 900, purpose: 'a flight' };
const QUESTIONS = ['Accept 900 for a flight?', 'Pay 900 of 900 for a flight?'];
const EVERYTHING = ['accept_claim', 'file_claim', 'pay', 'return_claim', 'workflow_start', 'workflow_status'];

const PINNED = { versionNegotiation: { mode: { pin: STATELESS } } };
const BY_HAND = { inputRequired: { autoFulfill: false } };
const FORMS = { capabilities: { elicitation: { form: {} } } };

/** A client whose user gives this answer to every question, and the questions. */
function person(action) {
  const asked = [];
  const answer = ({ message }) => {
    asked.push(message);
    return action === 'accept' ? { action, content: {} } : { action };
  };
  return { asked, how: { ...FORMS, handlers: { 'elicitation/create': answer } } };
}

export const sections = [
  ['consent handshake yes', () => withPerson('accept', {}, handshakeYes)],
  ...['decline', 'cancel'].map((action) => [`consent handshake ${action}`, () => withPerson(action, {}, handshakeNo)]),
  ['consent handshake without forms', () => expenses({}, handshakeCannotAsk)],
  ['consent stateless yes', () => withPerson('accept', PINNED, statelessYes)],
  ...['decline', 'cancel'].map((action) => [`consent stateless ${action}`, () => withPerson(action, PINNED, statelessNo)]),
  ['consent stateless without forms', () => expenses(PINNED, statelessCannotAsk)],
  ['consent stateless once', () => withPerson('accept', { ...PINNED, ...BY_HAND }, once)],
];

const withPerson = (action, more, body) => {
  const { asked, how } = person(action);
  return expenses({ ...how, ...more }, (link) => body({ ...link, asked }));
};

async function handshakeYes({ client, wire, asked }) {
  equal('the version', client.getNegotiatedProtocolVersion(), HANDSHAKE);
  went('a claim', await call(client, 'file_claim', CLAIM), 'review');
  equal('nobody is asked for that', asked, []);
  went('a yes', await call(client, 'accept_claim'), 'payable');
  went('another', await call(client, 'pay', { amount: 900 }), 'draft');
  equal('the questions', asked, QUESTIONS);
  equal('as requests of the server', wire.requests('elicitation/create').length, 2);
}

async function handshakeNo({ client, wire, asked }) {
  await call(client, 'file_claim', CLAIM);
  const before = wire.notifications('notifications/tools/list_changed').length;
  refused('a no', await call(client, 'accept_claim'), DENIED, 'review');
  equal('the question', asked, QUESTIONS.slice(0, 1));
  equal('no list has changed', wire.notifications('notifications/tools/list_changed').length, before);
  went('the next call works', await call(client, 'return_claim'), 'draft');
}

async function handshakeCannotAsk({ client }) {
  await call(client, 'file_claim', CLAIM);
  refused('nobody can be asked', await call(client, 'accept_claim'), PENDING, 'review');
  went('the next call works', await call(client, 'return_claim'), 'draft');
}

async function statelessYes(link) {
  const { client, wire, asked } = link;
  equal('the version', client.getNegotiatedProtocolVersion(), STATELESS);
  const everything = await listed(client);
  equal('everything is listed', everything.map((tool) => tool.name).sort(), EVERYTHING);
  const same = async (what) => equal(`the list after ${what}`, await listed(client), everything);

  const madeUp = await call(client, 'file_claim', { ...CLAIM, workflow: `wf_${'A'.repeat(30)}` });
  refused('an id that was made up', madeUp, NO_SUCH_WORKFLOW);
  const workflow = await started(client);
  await same('the start');
  refused('a payment too early', await call(client, 'pay', { amount: 900, workflow }), NOT_IN_STATE, 'draft');
  went('a claim', await call(client, 'file_claim', { ...CLAIM, workflow }), 'review');
  await same('the claim');
  equal('nobody is asked for that', asked, []);
  went('a yes', await call(client, 'accept_claim', { workflow }), 'payable');
  await same('a yes');
  went('another', await call(client, 'pay', { amount: 900, workflow }), 'paid');
  await same('the end');
  equal('the questions', asked, QUESTIONS);
  const asking = wire.results().filter((result) => result.resultType === 'input_required');
  equal('in results', asking.map((result) => Object.keys(result.inputRequests)), [[KEY], [KEY]]);
  equal('and in nothing else', wire.received.filter((message) => message.method && 'id' in message), []);

  const over = await call(client, 'pay', { amount: 900, workflow });
  refused('the id of what has ended', over, FINISHED);
  includes('the way to a new one', text(over), ['workflow_start']);
  equal('nobody is asked for that either', asked.length, 2);
}

async function statelessNo({ client, asked }) {
  const everything = await listed(client);
  const workflow = await started(client);
  await call(client, 'file_claim', { ...CLAIM, workflow });
  refused('a no', await call(client, 'accept_claim', { workflow }), DENIED, 'review');
  equal('the question', asked, QUESTIONS.slice(0, 1));
  await stands('where it is', client, workflow, 'review');
  equal('the list', await listed(client), everything);
  went('the next call works', await call(client, 'return_claim', { workflow }), 'draft');
}

async function statelessCannotAsk({ client }) {
  const workflow = await started(client);
  await call(client, 'file_claim', { ...CLAIM, workflow });
  refused('nobody can be asked', await call(client, 'accept_claim', { workflow }), PENDING, 'review');
  await stands('where it is', client, workflow, 'review');
}

async function once({ client }) {
  const [workflow, other] = [await started(client), await started(client)];
  for (const each of [workflow, other]) await call(client, 'file_claim', { ...CLAIM, workflow: each });
  const left = await question(client, 'accept_claim', { workflow });
  await call(client, 'return_claim', { workflow });
  await call(client, 'file_claim', { ...CLAIM, workflow });
  refused('a yes from before it moved', await again(client, 'accept_claim', { workflow }, left), DENIED, 'review');

  const accept = await question(client, 'accept_claim', { workflow });
  const stolen = await rejects('a yes for another instance', again(client, 'accept_claim', { workflow: other }, accept));
  equal('is an error of the protocol', stolen?.code, INVALID_PARAMS);
  await stands('the other one', client, other, 'review');
  went('a yes for this one', await again(client, 'accept_claim', { workflow }, accept), 'payable');
  refused('the same again', await again(client, 'accept_claim', { workflow }, accept), NOT_IN_STATE, 'payable');

  const payment = { amount: 900, workflow };
  const pay = await question(client, 'pay', payment);
  const less = await rejects('a yes for another amount', again(client, 'pay', { ...payment, amount: 1 }, pay));
  equal('is an error of the protocol', less?.code, INVALID_PARAMS);
  went('a yes for this one', await again(client, 'pay', payment, pay), 'paid');
  refused('nothing is paid twice', await again(client, 'pay', payment, pay), FINISHED);
}

const listed = async (client) => (await client.listTools()).tools;

async function started(client) {
  const { structuredContent } = await call(client, 'workflow_start');
  ok('a workflow is begun', structuredContent?.workflow);
  return structuredContent?.workflow;
}

async function stands(what, client, workflow, state) {
  const { structuredContent } = await call(client, 'workflow_status', { workflow });
  equal(what, structuredContent?.state, state);
}

/** The first round of a call; returns what has to be brought back. */
async function question(client, name, args) {
  const asked = await call(client, name, args, { allowInputRequired: true });
  equal(`${name} asks`, [asked.resultType, Object.keys(asked.inputRequests ?? {})], ['input_required', [KEY]]);
  return asked.requestState;
}

/** The second round of a call, with a yes. */
const again = (client, name, args, requestState) => {
  const inputResponses = { [KEY]: { action: 'accept', content: {} } };
  return client.callTool({ name, arguments: args, inputResponses, requestState }, { allowInputRequired: true });
};

function went(what, result, state) {
  ok(what, !result.isError && !result._meta?.[REFUSAL], text(result));
  equal(`${what} leads to`, result._meta?.[WORKFLOW]?.state, state);
}

function refused(what, result, code, state) {
  const refusal = result._meta?.[REFUSAL];
  equal(what, [result.isError, refusal?.code], [true, code]);
  if (state !== undefined) equal(`${what} leaves it where it is`, refusal?.state, state);
}
