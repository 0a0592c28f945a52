// What the examples promise, and questions that are the same in every version.

import { equal, includes, ok, rejects } from './checks.mjs';

export const HANDSHAKE = '2025-11-25';
export const STATELESS = '2026-07-28';

/** Tools of the example `conformance` that any client may call. */
const TOOLS = [
  'test_simple_text',
  'test_image_content',
  'test_audio_content',
  'test_embedded_resource',
  'test_multiple_content_types',
  'test_tool_with_logging',
  'test_tool_with_progress',
  'test_error_handling',
  'test_structured_content',
  'json_schema_2020_12_tool',
];
const RESOURCES = ['test://static-text', 'test://static-binary', 'test://watched-resource'];
const TEMPLATE = 'test://template/{id}/data';
export const WATCHED = 'test://watched-resource';
const PROMPTS = [
  'test_simple_prompt',
  'test_prompt_with_arguments',
  'test_prompt_with_embedded_resource',
  'test_prompt_with_image',
];

const INVALID_PARAMS = -32602;
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47]);

export const call = (client, name, args = {}, options = undefined) =>
  client.callTool({ name, arguments: args }, options);
export const text = (result) =>
  result.content.filter((item) => item.type === 'text').map((item) => item.text).join('\n');

const isPng = (base64) => Buffer.from(base64, 'base64').subarray(0, 4).equals(PNG);

export async function tools({ client }) {
  const { tools } = await client.listTools();
  includes('the tools listed', tools.map((tool) => tool.name), TOOLS);
  ok('every tool says what it does and takes', tools.every((tool) => tool.description && tool.inputSchema.type === 'object'));
  const schema = tools.find((tool) => tool.name === 'json_schema_2020_12_tool')?.inputSchema;
  equal('a schema keeps its definitions', schema?.$defs?.address?.$anchor, 'addressDef');
  equal('a schema keeps its conditions', schema?.then, { required: ['phone'] });

  const simple = await client.callTool({ name: 'test_simple_text' });
  equal('text, without arguments', simple.content, [{ type: 'text', text: 'This is a simple text response for testing.' }]);

  const [image] = (await call(client, 'test_image_content')).content;
  equal('an image', [image.type, image.mimeType], ['image', 'image/png']);
  ok('the image is a PNG', isPng(image.data));

  const [audio] = (await call(client, 'test_audio_content')).content;
  equal('audio', [audio.type, audio.mimeType], ['audio', 'audio/wav']);
  equal('the audio is a WAV', Buffer.from(audio.data, 'base64').subarray(0, 4).toString(), 'RIFF');

  const [embedded] = (await call(client, 'test_embedded_resource')).content;
  equal('an embedded resource', [embedded.type, embedded.resource.uri, embedded.resource.mimeType], ['resource', 'test://embedded-resource', 'text/plain']);
  ok('the embedded resource has a text', embedded.resource.text);

  const mixed = (await call(client, 'test_multiple_content_types')).content;
  equal('mixed content, in order', mixed.map((item) => item.type), ['text', 'image', 'resource']);
  equal('the mixed resource', mixed[2].resource.uri, 'test://mixed-content-resource');
  ok('the mixed resource is JSON', typeof JSON.parse(mixed[2].resource.text) === 'object');

  const failing = await call(client, 'test_error_handling');
  equal('a tool that fails says so', failing.isError, true);
  includes('the failure has its reason', text(failing), ['This tool intentionally returns an error for testing']);
}

export async function structured({ client }) {
  const { tools } = await client.listTools();
  const tool = tools.find((tool) => tool.name === 'test_structured_content');
  if (!ok('there is a tool with an output schema', tool?.outputSchema)) return;
  // The client itself checks the content against the schema, and fails the call if it differs.
  const { structuredContent, content } = await call(client, tool.name);
  includes('what the schema requires is there', Object.keys(structuredContent ?? {}), tool.outputSchema.required ?? []);
  ok('the schema requires something', tool.outputSchema.required?.length > 0);
  equal('the text says the same', JSON.parse(content.find((item) => item.type === 'text').text), structuredContent);
}

export async function progress({ client, wire }) {
  const seen = [];
  await call(client, 'test_tool_with_progress', {}, { onprogress: (step) => seen.push(step) });
  equal('progress', seen.map((step) => [step.progress, step.total]), [[0, 100], [50, 100], [100, 100]]);
  await call(client, 'test_tool_with_progress');
  equal('no progress for who did not ask', wire.notifications('notifications/progress').length, 3);
}

export async function resources({ client, wire }, unknown) {
  const { resources } = await client.listResources();
  includes('the resources listed', resources.map((resource) => resource.uri), RESOURCES);
  ok('every resource has a name', resources.every((resource) => resource.name));

  const [plain] = (await client.readResource({ uri: 'test://static-text' })).contents;
  equal('a text', [plain.uri, plain.mimeType], ['test://static-text', 'text/plain']);
  ok('the text is not empty', plain.text);
  const [binary] = (await client.readResource({ uri: 'test://static-binary' })).contents;
  equal('a blob', [binary.uri, binary.mimeType], ['test://static-binary', 'image/png']);
  ok('the blob is a PNG', isPng(binary.blob));

  const { resourceTemplates } = await client.listResourceTemplates();
  includes('the templates listed', resourceTemplates.map((template) => template.uriTemplate), [TEMPLATE]);
  const uri = TEMPLATE.replace('{id}', '123');
  const [filled] = (await client.readResource({ uri })).contents;
  equal('a filled template', filled.uri, uri);
  includes('the template got its id', JSON.stringify(JSON.parse(filled.text)), ['123']);

  await rejects('a resource that is not there', client.readResource({ uri: 'test://nowhere' }));
  equal('is not found', wire.lastError(), unknown);
}

export async function prompts({ client }) {
  const { prompts } = await client.listPrompts();
  includes('the prompts listed', prompts.map((prompt) => prompt.name), PROMPTS);
  ok('every prompt says what it is for', prompts.every((prompt) => prompt.description));
  const get = async (name, args) => (await client.getPrompt({ name, arguments: args })).messages;

  const [simple] = await get('test_simple_prompt');
  equal('a prompt', [simple.role, simple.content.type], ['user', 'text']);
  const [filled] = await get('test_prompt_with_arguments', { arg1: 'one', arg2: 'two' });
  equal('a prompt with arguments', filled.content.text, "Prompt with arguments: arg1='one', arg2='two'");
  const [resource, after] = await get('test_prompt_with_embedded_resource', { resourceUri: 'test://example' });
  equal('a prompt with a resource', [resource.content.type, resource.content.resource.uri, after.content.type], ['resource', 'test://example', 'text']);
  const [image, below] = await get('test_prompt_with_image');
  equal('a prompt with an image', [image.content.type, image.content.mimeType, below.content.type], ['image', 'image/png', 'text']);

  const missing = await rejects('a prompt that is not there', get('nowhere'));
  equal('is refused', missing?.code, INVALID_PARAMS);
  const short = await rejects('a prompt without its arguments', get('test_prompt_with_arguments', {}));
  equal('is refused too', short?.code, INVALID_PARAMS);
}

export async function completion({ client }) {
  const ref = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
  const { completion } = await client.complete({ ref, argument: { name: 'arg1', value: 'a' } });
  ok('values for an argument of a prompt', Array.isArray(completion.values));
  const template = { type: 'ref/resource', uri: TEMPLATE };
  const context = { arguments: { other: 'x' } };
  const second = await client.complete({ ref: template, argument: { name: 'id', value: '1' }, context });
  ok('values for a variable of a template', second.completion.values.length <= 100);
  const unknown = { type: 'ref/prompt', name: 'nowhere' };
  const refused = await rejects('for a prompt that is not there', client.complete({ ref: unknown, argument: { name: 'a', value: '' } }));
  equal('it is refused', refused?.code, INVALID_PARAMS);
}

export async function pagination({ client, wire }) {
  for (const [list, items] of [['listTools', 'tools'], ['listResources', 'resources'], ['listPrompts', 'prompts'], ['listResourceTemplates', 'resourceTemplates']]) {
    const { [items]: all } = await client[list]();
    // The client asks for page after page until there is no cursor.
    const pages = wire.results().filter((result) => result[items]).map((result) => result[items]);
    equal(`all pages of ${items} together are the list`, pages.flat().length, all.length);
    ok(`no page of ${items} is empty but an only one`, pages.length === 1 || pages.every((page) => page.length > 0));
    const bad = await rejects(`a cursor of ${items} that nobody gave out`, client[list]({ cursor: 'made up' }));
    equal('is refused', bad?.code, INVALID_PARAMS);
  }
}

export async function mistakes({ client }) {
  const missing = await rejects('a tool that is not there', call(client, 'nowhere'));
  equal('is refused', missing?.code, INVALID_PARAMS);
  const wrong = await call(client, 'test_sampling', { prompt: 7 });
  equal('arguments of the wrong type are an error of the tool', wrong.isError, true);
}

export async function concurrency({ client }) {
  const calls = Array.from({ length: 30 }, () => call(client, 'test_simple_text'));
  const texts = new Set((await Promise.all(calls)).map(text));
  equal('thirty calls at once, one answer', texts.size, 1);
}
