// The MCP Inspector's command line, one process per question, against the examples.
//
//     node inspector.mjs --conformance URL --echo-url URL --echo PROGRAM
//
// Prints one line per check; the last one is `N checks, M failed`.

import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

import { equal, includes, ok, options, run } from './checks.mjs';
import { HANDSHAKE, STATELESS } from './fixtures.mjs';

/** For one question, and for a row of them. */
const LIMIT_MS = 30_000;
const SECTION_MS = 240_000;
/** How the Inspector ends when a tool said that it failed, or when there is no such tool. */
const TOOL_ERROR = 5;

const manifest = createRequire(import.meta.url).resolve('@modelcontextprotocol/inspector/package.json');
const INSPECTOR = join(dirname(manifest), 'clients/launcher/build/index.js');

const overHttp = (url, era) => ['--transport', 'http', '--server-url', url, '--protocol-era', era];
const overStdio = (...flags) => ['--transport', 'stdio', '--protocol-era', 'legacy', '--', options.echo, '--stdio', ...flags];

/** Asks one question; the answer is what the Inspector printed, how it ended, and why. */
function ask(server, method, ...details) {
  const words = [INSPECTOR, '--cli', '--format', 'json', '--quiet', '--method', method, ...details, ...server];
  return new Promise((resolve) => {
    execFile(process.execPath, words, { timeout: LIMIT_MS }, (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal) : 0, result: parsed(stdout)?.result, error: parsed(stderr)?.error });
    });
  });
}

function parsed(printed) {
  try {
    return JSON.parse(printed);
  } catch {
    return undefined;
  }
}

/** The result of a question that has to be answered. */
async function result(...question) {
  const { code, result, error } = await ask(...question);
  ok(`${question[1]} is answered`, code === 0 && result, `it ended with ${code}: ${error?.message ?? 'no result'}`);
  return result ?? {};
}

const text = ({ content = [] }) => content.map((item) => item.text).join('\n');

async function everything(server, version) {
  const hello = await result(server, 'initialize');
  equal('the version', hello.protocolVersion, version);
  ok('the server has a name', hello.serverInfo?.name);
  includes('capabilities', Object.keys(hello.capabilities ?? {}), ['tools', 'resources', 'prompts', 'completions']);

  // A schema that some model's interface would refuse is an error here.
  const { tools = [] } = await result(server, 'tools/list', '--strict');
  includes('the tools', tools.map((tool) => tool.name), ['test_simple_text', 'test_error_handling', 'json_schema_2020_12_tool']);
  equal('a call', text(await result(server, 'tools/call', '--tool-name', 'test_simple_text')), 'This is a simple text response for testing.');
  const mixed = await result(server, 'tools/call', '--tool-name', 'test_multiple_content_types');
  equal('mixed content', mixed.content?.map((item) => item.type), ['text', 'image', 'resource']);
  ok('progress', (await result(server, 'tools/call', '--tool-name', 'test_tool_with_progress')).content);
  const failing = await ask(server, 'tools/call', '--tool-name', 'test_error_handling');
  equal('a tool that fails', [failing.code, failing.result?.isError], [TOOL_ERROR, true]);
  const missing = await ask(server, 'tools/call', '--tool-name', 'nowhere');
  equal('a tool that is not there', [missing.code, missing.error?.code], [TOOL_ERROR, 'tool_not_found']);

  const { resources = [] } = await result(server, 'resources/list');
  includes('the resources', resources.map((resource) => resource.uri), ['test://static-text', 'test://static-binary']);
  const plain = await result(server, 'resources/read', '--uri', 'test://static-text');
  ok('a text', plain.contents?.[0].text);
  const binary = await result(server, 'resources/read', '--uri', 'test://static-binary');
  ok('a blob', binary.contents?.[0].blob);
  const { resourceTemplates = [] } = await result(server, 'resources/templates/list');
  includes('the templates', resourceTemplates.map((template) => template.uriTemplate), ['test://template/{id}/data']);
  const filled = await result(server, 'resources/read', '--uri', 'test://template/123/data');
  includes('a filled template', filled.contents?.[0].text, ['123']);
  const nowhere = await ask(server, 'resources/read', '--uri', 'test://nowhere');
  ok('a resource that is not there', nowhere.code === 1 && nowhere.error?.message);

  const { prompts = [] } = await result(server, 'prompts/list');
  includes('the prompts', prompts.map((prompt) => prompt.name), ['test_simple_prompt', 'test_prompt_with_arguments']);
  const prompt = await result(server, 'prompts/get', '--prompt-name', 'test_prompt_with_arguments', '--prompt-args', 'arg1=one', 'arg2=two');
  equal('a prompt', prompt.messages?.[0].content.text, "Prompt with arguments: arg1='one', arg2='two'");
}

async function handshake() {
  const server = overHttp(options.conformance, 'legacy');
  await everything(server, HANDSHAKE);
  equal('setLevel', await result(server, 'logging/setLevel', '--log-level', 'debug'), {});
  // The Inspector's command line does not say that its user can be asked, so nobody asks.
  const elicited = await ask(server, 'tools/call', '--tool-name', 'test_elicitation', '--tool-arg', 'message=Who?');
  ok('elicitation is not asked for', elicited.code !== 0);
}

async function stateless() {
  await everything(overHttp(options.conformance, 'modern'), STATELESS);
  const found = await result(overHttp(options.conformance, 'auto'), 'initialize');
  equal('the newest version is found', found.protocolVersion, STATELESS);
}

async function load(server) {
  const told = await result(server, 'tools/call', '--tool-name', 'echo', '--tool-arg', 'text=hello', '--load', '--load-requests', '200');
  equal('two hundred calls', [told.ok, told.toolErrors, told.errors], [200, 0, 0]);
}

async function stdio() {
  const server = overStdio();
  equal('the version', (await result(server, 'initialize')).protocolVersion, HANDSHAKE);
  const { tools = [] } = await result(server, 'tools/list', '--strict');
  includes('the tools', tools.map((tool) => tool.name), ['echo']);
  equal('and twenty others', tools.length, 21);
  equal('an echo', text(await result(server, 'tools/call', '--tool-name', 'echo', '--tool-arg', 'text=zwölf ☃')), 'zwölf ☃');
  const spelt = await result(server, 'tools/call', '--tool-name', 'echo', '--tool-args-json', '{"text":"a=b\\nc"}');
  equal('an echo of JSON', text(spelt), 'a=b\nc');
  const wrong = await ask(server, 'tools/call', '--tool-name', 'echo', '--tool-args-json', '{"text":7}');
  ok('arguments of the wrong type', wrong.code !== 0 && (wrong.result?.isError || wrong.error));
  const panicked = await ask(overStdio('--hazards'), 'tools/call', '--tool-name', 'panic');
  equal('a panic is an error of its call', [panicked.code, panicked.result?.isError], [TOOL_ERROR, true]);
  await load(server);
}

const sections = [
  ['handshake', handshake],
  ['stateless', stateless],
  ['stdio', stdio],
  ['http load', () => load(overHttp(options['echo-url'], 'legacy'))],
  ['http stateless load', () => load(overHttp(options['echo-url'], 'modern'))],
];
await run(sections, SECTION_MS);
