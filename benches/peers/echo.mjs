// The same server with the official TypeScript SDK, for `cargo xtask bench --peers`.
// Answers are plain JSON where the SDK can, which is its faster way.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';

import { getRequestListener } from '@hono/node-server';
import { createMcpHandler, McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod/v4';

const { values: wanted } = parseArgs({
    options: {
        stdio: { type: 'boolean' },
        http: { type: 'string' },
        stateless: { type: 'boolean' },
        tools: { type: 'string', default: '21' },
    },
});

const KINDS = [
    ...Array(7).fill(z.string()),
    ...Array(3).fill(z.number()),
    ...Array(4).fill(z.int()),
    z.boolean(),
    z.number().nullable(),
    z.array(z.string()),
    z.array(z.number()).length(2),
    z.array(z.string()),
    z.object({ x: z.number(), y: z.number() }),
].map(value => z.object({ value }));
const TEXT = z.object({ text: z.string().describe('What comes back.') });

const said = text => ({ content: [{ type: 'text', text }] });

function server() {
    const mcp = new McpServer({ name: 'echo', version: '0.1.0' });
    mcp.registerTool('echo', { description: 'Says it again', inputSchema: TEXT }, ({ text }) => said(text));
    for (let number = 1; number < Number(wanted.tools); number++) {
        const name = `tool_${String(number).padStart(2, '0')}`;
        const inputSchema = KINDS[(number - 1) % KINDS.length];
        const description = 'Takes something and says it again';
        mcp.registerTool(name, { description, inputSchema }, ({ value }) => said(JSON.stringify(value)));
    }
    return mcp;
}

/** Serves sessions, each with a transport of its own. */
function inSessions() {
    const sessions = new Map();
    return async request => {
        const id = request.headers.get('mcp-session-id');
        if (id !== null) {
            const transport = sessions.get(id);
            return transport ? transport.handleRequest(request) : new Response(null, { status: 404 });
        }
        const transport = new WebStandardStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: session => void sessions.set(session, transport),
            enableJsonResponse: true,
        });
        await server().connect(transport);
        return transport.handleRequest(request);
    };
}

/** Serves requests as in 2026-07-28. */
function withoutSessions() {
    const handler = createMcpHandler(server, { responseMode: 'json' });
    return request => handler.fetch(request);
}

if (wanted.http === undefined) {
    serveStdio(server);
} else {
    const at = wanted.http.lastIndexOf(':');
    const listener = getRequestListener(wanted.stateless ? withoutSessions() : inSessions());
    createServer(listener).listen(Number(wanted.http.slice(at + 1)), wanted.http.slice(0, at));
}
