// Clients that remember everything that crosses their wire.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { options } from './checks.mjs';

const INFO = { name: 'interlock-tests', version: '1.0.0' };
const REQUEST_MS = 20_000;

/** Messages in the order in which they went over the wire, and HTTP exchanges likewise. */
export class Wire {
  sent = [];
  received = [];
  exchanges = [];
  errors = [];

  tap(transport) {
    let deliver;
    const send = transport.send.bind(transport);
    transport.send = (message, ...rest) => {
      this.sent.push(...structuredClone([message].flat()));
      return send(message, ...rest);
    };
    Object.defineProperty(transport, 'onmessage', {
      get: () => deliver,
      set: (handler) => {
        deliver = handler && ((message, ...rest) => {
          // The client fills some of what it gets; what is kept here is what came.
          this.received.push(structuredClone(message));
          return handler(message, ...rest);
        });
      },
    });
    return transport;
  }

  /** A `fetch` that writes down what was asked and how it was answered. */
  fetch = async (url, init = {}) => {
    const exchange = { method: init.method ?? 'GET', headers: new Headers(init.headers), body: init.body };
    this.exchanges.push(exchange);
    const response = await fetch(url, init);
    exchange.status = response.status;
    exchange.type = response.headers.get('content-type');
    return response;
  };

  requests(method) {
    return this.received.filter((message) => message.method === method && 'id' in message);
  }

  notifications(method) {
    return this.received.filter((message) => message.method === method && !('id' in message));
  }

  /** The code of the last error that came: the client puts its own in the place of some. */
  lastError() {
    return this.received.findLast((message) => 'error' in message)?.error.code;
  }

  results() {
    return this.received.filter((message) => 'result' in message).map((message) => message.result);
  }

  /** The id of the last request that was sent for this method. */
  lastId(method) {
    return this.sent.filter((message) => message.method === method).at(-1)?.id;
  }

  answers(id) {
    return this.received.filter((message) => !message.method && message.id === id);
  }
}

/** Capabilities, with the handlers that they promise. */
export const ABLE = {
  sampling: {},
  elicitation: { form: { applyDefaults: true }, url: {} },
  roots: { listChanged: true },
};

/**
 * A connection over HTTP or stdio. `how` has the client's options, `session` to join one, and
 * `prior` for what is known of the server.
 * The client is closed when `body` ends.
 */
export async function over(transport, how, body) {
  const wire = new Wire();
  const { session, prior, handlers = {}, ...clientOptions } = how;
  const client = new Client(INFO, { capabilities: {}, ...clientOptions });
  for (const [method, handler] of Object.entries(handlers)) {
    client.setRequestHandler(method, (request) => handler(request.params));
  }
  client.onerror = (error) => wire.errors.push(error);
  const pipe = wire.tap(transport(wire, session));
  await client.connect(pipe, { timeout: REQUEST_MS, prior });
  try {
    return await body({ client, wire, transport: pipe });
  } finally {
    await client.close();
  }
}

const http = (url) => (wire, session = {}) =>
  new StreamableHTTPClientTransport(new URL(url), { fetch: wire.fetch, ...session });

export const conformance = (how, body) => over(http(options.conformance), how, body);
export const expenses = (how, body) => over(http(options.expenses), how, body);
export const echoOverHttp = (how, body) => over(http(options['echo-url']), how, body);
export const echoOverStdio = (how, body) =>
  over(
    () => new StdioClientTransport({ command: options.echo, args: ['--stdio', '--hazards', '--tool-timeout', '2s'] }),
    how,
    body,
  );
