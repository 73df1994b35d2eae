// One conversation by the official JavaScript client over one binding; what it saw goes to standard output, for pytest.
// node conversation.mjs URL TOKEN BINDING
import { randomUUID } from 'node:crypto';
import { AgentCard, StreamResponse, Task, SendMessageRequest } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { all, refusal } from './watching.mjs';

const [url, token, binding] = process.argv.slice(2);
const asCaller = { serviceParameters: { authorization: `Bearer ${token}` } };
const transports = [new JsonRpcTransportFactory(), new RestTransportFactory(), new GrpcTransportFactory()];

const said = (text, fields = {}) =>
  SendMessageRequest.fromJSON({
    message: { role: 'ROLE_USER', messageId: randomUUID(), parts: [{ text }], ...fields },
  });

async function cancel(client) {
  const stream = client.sendMessageStream(said('tck-cancel'), asCaller);
  const first = StreamResponse.toJSON((await stream.next()).value);
  const cancelled = await client.cancelTask({ id: first.task.id }, asCaller);
  return { first, cancelled: Task.toJSON(cancelled), rest: await all(stream, StreamResponse.toJSON) };
}

const client = await new ClientFactory({
  transports: transports.filter((transport) => transport.protocolName === binding),
}).createFromUrl(url);

const asked = await client.sendMessage(said('tck-multi-turn'), asCaller);
const answered = await client.sendMessage(said('done', { taskId: asked.id }), asCaller);
const found = await client.getTask({ id: asked.id }, asCaller);

const seen = {
  version: client.protocolVersion,
  extendedCard: AgentCard.toJSON(await client.getAgentCard(asCaller)),
  completed: Task.toJSON(await client.sendMessage(said('hello'), asCaller)),
  asked: Task.toJSON(asked),
  answered: Task.toJSON(answered),
  found: Task.toJSON(found),
  streamed: await all(client.sendMessageStream(said('tck-stream-basic'), asCaller), StreamResponse.toJSON),
  cancel: await cancel(client),
  missing: await refusal(() => client.getTask({ id: 'nobody' }, asCaller)),
  ended: await refusal(() => client.cancelTask({ id: asked.id }, asCaller)),
  stranger: await refusal(() => client.getTask({ id: asked.id }, { serviceParameters: {} })),
};
// Open channels would keep the process; what it says must be out before it ends.
process.stdout.write(JSON.stringify(seen), () => process.exit(0));
