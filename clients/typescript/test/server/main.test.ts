// The main job against a real server; tools/node/run-client.sh starts one.
import assert from "node:assert/strict"
import { createServer, request as forward, type IncomingMessage, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import test, { type TestContext } from "node:test"
import { LksmsClient, LksmsError, verifyWebhook, type EventPage, type PostedEvent, type Schema } from "lksms-client"

const { LKSMS_URL = "", BASIC_AUTH_USERNAME = "", BASIC_AUTH_PASSWORD = "" } = process.env
const clientOf = (baseUrl: string) =>
  new LksmsClient({ baseUrl, credentials: { username: BASIC_AUTH_USERNAME, password: BASIC_AUTH_PASSWORD } })
const client = clientOf(LKSMS_URL)
const app_id = "typescript_client"

async function listen(t: TestContext, server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ""
  request.setEncoding("utf8")
  for await (const chunk of request) text += chunk
  return text
}

/** Claims until a task comes, sends nothing, and reports it. */
async function deliver(): Promise<string> {
  return (await deliverTask()).task_id
}

async function deliverTask(): Promise<Schema<"ClaimedTask">> {
  for await (const tasks of client.claims({ app_id, limit: 1 }, { signal: AbortSignal.timeout(60_000) })) {
    const task = tasks[0]!
    await client.report({ task_id: task.task_id, app_id, lease_id: task.lease_id, status: 2 })
    return task
  }
  assert.fail("no task came")
}

test("a message is sent, and its sender reads the outcome, pulls the event, and gets it by webhook", { timeout: 120_000 }, async (t) => {
  const posts: PostedEvent[] = []
  let secret = ""
  let posted = () => {}
  const receiver = createServer(async (request, response) => {
    const body = await textOf(request)
    try {
      posts.push(await verifyWebhook({ headers: request.headers, body, secret }))
      response.writeHead(204).end()
    } catch (error) {
      response.writeHead(400).end(String(error))
    }
    posted()
  })
  const url = await listen(t, receiver)
  const webhook = await client.call("createWebhook", { body: { url, events: ["message.sent"] } })
  secret = webhook.secret
  t.after(() => client.call("deleteWebhook", { path: { webhook_id: webhook.webhook_id } }))
  const tried = await client.call("testWebhook", { path: { webhook_id: webhook.webhook_id } })
  assert.equal(tried.taken, true, JSON.stringify(tried))
  assert.deepEqual([posts[0]?.type, posts[0]?.data], ["webhook.test", { webhook_id: webhook.webhook_id }])

  const { next_cursor: after } = await client.call("pullEvents")
  const preview = await client.dryRun({ phone_number: "13800138000", content: "您的快递已到" })
  assert.equal(preview.segments, 1)

  // The app waits before the message is there.
  const delivered = deliver()
  const sent = await client.send({ phone_number: "13800138000", content: "您的快递已到" })
  assert.equal(await delivered, sent.task_id)
  assert.equal((await client.task(sent.task_id)).status, 2)

  let page: EventPage | undefined
  for await (page of client.events({ after })) if (page.items.length > 0) break
  const pulled = page?.items[0]
  assert.ok(pulled?.type === "message.sent")
  assert.deepEqual([page?.items.length, pulled.data.task_id], [1, sent.task_id])

  if (posts.length < 2) await new Promise<void>((resolve) => (posted = resolve))
  const event = posts[1]
  assert.ok(event?.type === "message.sent")
  assert.equal(event.data.task_id, sent.task_id)
  assert.equal(event.id, pulled.id)
})

test("a refusal names the field, the reason and the request", async () => {
  await assert.rejects(client.send({ phone_number: "12345678901", content: "x" }), (error) => {
    assert.ok(error instanceof LksmsError)
    assert.deepEqual([error.status, error.reason], [422, "request.invalid"])
    assert.deepEqual(
      error.fields.map((field) => field.field),
      ["phone_number"],
    )
    assert.ok(error.requestId)
    return true
  })
})

test("a lost connection is repeated without a second message", async (t) => {
  let lost = 0
  const proxy = createServer(async (request, response) => {
    const body = await textOf(request)
    const onward = forward(LKSMS_URL + request.url, { method: request.method!, headers: request.headers }, async (answer) => {
      const text = await textOf(answer)
      if (request.method === "POST" && lost === 0) {
        lost++
        request.socket.destroy() // the message is stored, and nobody is told
      } else {
        response.writeHead(answer.statusCode!, { "Content-Type": answer.headers["content-type"] ?? "" }).end(text)
      }
    })
    onward.end(body)
  })
  const behind = clientOf(await listen(t, proxy))
  const source = "lost_connection"
  const sent = await behind.send({ phone_number: "13900139000", content: "一次", source })
  assert.equal(lost, 1)
  const stored = await client.call("listTasks", { query: { source } })
  assert.deepEqual(
    stored.items.map((task) => task.task_id),
    [sent.task_id],
  )
  assert.equal(await deliver(), sent.task_id)
})

// The next two functions are in docs/codes.md, where the client has this name.
const lksms = client

async function sendCode(phone_number: string, client_ip: string): Promise<string> {
  const { verification_id } = await lksms.startVerification({ phone_number, client_ip, purpose: "login" })
  return verification_id
}

async function isRight(verification_id: string, code: string): Promise<boolean> {
  const { status } = await lksms.checkVerification(verification_id, code)
  return status === "approved"
}

test("a person signs in with a code", async () => {
  const id = await sendCode("13700137000", "203.0.113.9")
  const code = /\d{6}/.exec((await deliverTask()).content)![0]
  assert.equal(await isRight(id, "wrong"), false)
  assert.equal(await isRight(id, code), true)
  await assert.rejects(isRight(id, code), { reason: "verification.approved" })
  await assert.rejects(sendCode("13700137000", "203.0.113.9"), { reason: "recipient.limited" })
})
