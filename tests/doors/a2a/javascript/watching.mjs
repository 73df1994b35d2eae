// What both conversations do with an answer.

export async function refusal(call) {
  try {
    await call();
  } catch (error) {
    return { name: error.constructor.name, message: error.message };
  }
  return null;
}

export async function all(stream, read = (event) => event) {
  const events = [];
  for await (const event of stream) events.push(read(event));
  return events;
}
