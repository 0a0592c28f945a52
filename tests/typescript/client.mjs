// Everything that the official TypeScript client can do, against the examples.
//
//     node client.mjs --conformance URL --echo-url URL --echo PROGRAM --expenses URL
//
// Prints one line per check; the last one is `N checks, M failed`.

import { run } from './checks.mjs';
import { sections as echo } from './echo.mjs';
import { sections as consent } from './consent.mjs';
import { sections as handshake } from './handshake.mjs';
import { sections as stateless } from './stateless.mjs';

await run([...handshake, ...stateless, ...consent, ...echo]);
