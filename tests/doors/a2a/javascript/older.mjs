// The same by the official JavaScript client of A2A 0.3, which reads no card of 1.0: it is told where to call.
// node older.mjs URL TOKEN
import { randomUUID } from 'node:crypto';
import { ClientFactory } from '@a2a-js/sdk/client';
import { all, refusal } from './watching.mjs';

const [url, token] = process.argv.slice(2);
const asCaller = { serviceParameters: { authorization: `Bearer ${token}` } };
const card = {
  name: 'Conformance',
  description: 'As it would say of itself.',
  url: `${url}/a2a`,
  preferredTransport: 'JSONRPC',
  protocolVersion: '0.3.0',
  version: '1.0.0',
  capabilities: { streaming: true },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
};

const said = (text, fields = {}) => ({
  message: { kind: 'message', role: 'user', messageId: randomUUID(), parts: [{ kind: 'text', text }], ...fields },
});

async function cancel(client) {
  const stream = client.sendMessageStream(said('tck-cancel'), asCaller);
  const first = (await stream.next()).value;
  const cancelled = await client.cancelTask({ id: first.id }, asCaller);
  return { first, cancelled, rest: await all(stream) };
}

const client = await new ClientFactory().createFromAgentCard(card);

const asked = await client.sendMessage(said('tck-multi-turn'), asCaller);
const answered = await client.sendMessage(said('done', { taskId: asked.id }), asCaller);

const seen = {
  completed: await client.sendMessage(said('hello'), asCaller),
  asked,
  answered,
  found: await client.getTask({ id: asked.id }, asCaller),
  streamed: await all(client.sendMessageStream(said('tck-stream-basic'), asCaller)),
  cancel: await cancel(client),
  missing: await refusal(() => client.getTask({ id: 'nobody' }, asCaller)),
  ended: await refusal(() => client.cancelTask({ id: asked.id }, asCaller)),
};
// Open channels would keep the process; what it says must be out before it ends.
process.stdout.write(JSON.stringify(seen), () => process.exit(0));
