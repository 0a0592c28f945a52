// Counts checks. A failed one does not end its section; an exception does, and counts as failed.

import { parseArgs } from 'node:util';

const SECTION_MS = 60_000;
const UNTIL_MS = 10_000;
const SHOWN = 400;

/** What `cargo xtask test` tells every script here. */
export const options = parseArgs({
  options: {
    conformance: { type: 'string' },
    'echo-url': { type: 'string' },
    echo: { type: 'string' },
    expenses: { type: 'string' },
  },
}).values;

let section = '';
let passed = 0;
let failed = 0;

export function ok(what, held, why = 'it does not hold') {
  if (held) {
    passed += 1;
    console.log(`ok   ${section}: ${what}`);
  } else {
    failed += 1;
    console.log(`FAIL ${section}: ${what}: ${why}`);
  }
  return Boolean(held);
}

export function equal(what, actual, expected) {
  return ok(what, show(actual) === show(expected), `expected ${show(expected)}, got ${show(actual)}`);
}

/** Every one of `parts` is in `whole`, a text or a list. */
export function includes(what, whole, parts) {
  const missing = parts.filter((part) => !whole?.includes(part));
  return ok(what, whole !== undefined && missing.length === 0, `${show(missing)} not in ${show(whole)}`);
}

/** A promise that has to fail; returns why it did. */
export async function rejects(what, promise) {
  try {
    const result = await promise;
    ok(what, false, `it came to ${show(result)}`);
  } catch (error) {
    ok(what, true);
    return error;
  }
  return undefined;
}

/** Waits for what happens beside the call that caused it. */
export async function until(what, condition) {
  const deadline = Date.now() + UNTIL_MS;
  while (!condition() && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return ok(what, condition(), `not within ${UNTIL_MS} ms`);
}

/** Runs sections one after the other, each for so long at most, and ends the process. */
export async function run(sections, ms = SECTION_MS) {
  for (const [name, body] of sections) {
    section = name;
    try {
      await within(ms, body());
    } catch (error) {
      ok('goes through', false, describe(error));
    }
  }
  console.log(`${passed + failed} checks, ${failed} failed`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export function show(value) {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

function describe(error) {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.split(/\s+/).join(' ').slice(0, SHOWN);
}
