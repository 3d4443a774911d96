import assert from "node:assert/strict"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import test, { type TestContext } from "node:test"
import { LksmsClient, LksmsError, type ClientOptions } from "lksms-client"

interface Got {
  method: string | undefined
  url: string | undefined
  headers: IncomingMessage["headers"]
  body: string
}

/** A client of a server that answers one request after the other with these answers, and what the server got. */
async function setup(
  t: TestContext,
  answers: ((response: ServerResponse, request: IncomingMessage) => void)[],
  options: Partial<ClientOptions> = {},
) {
  const got: Got[] = []
  const server = createServer(async (request, response) => {
    let body = ""
    for await (const chunk of request) body += chunk
    got.push({ method: request.method, url: request.url, headers: request.headers, body })
    const answer = answers.shift()
    if (answer) answer(response, request)
    else request.socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const client = new LksmsClient({
    baseUrl: `http://127.0.0.1:${port}/`,
    credentials: { username: "shop", password: "密码" },
    ...options,
  })
  return { client, got }
}

const json = (status: number, body: unknown, headers: Record<string, string> = {}) => (response: ServerResponse) => {
  response.writeHead(status, { "Content-Type": "application/json", ...headers })
  response.end(JSON.stringify(body))
}
const ok = (data?: unknown) => json(200, { code: 200, message: "success", data })
const fails = (status: number, reason: string, headers: Record<string, string> = {}) =>
  json(status, { code: status, message: "A text.", error: { reason }, request_id: "r1" }, headers)
const drop = (_: ServerResponse, request: IncomingMessage) => request.socket.destroy()

async function failureOf(promise: Promise<unknown>): Promise<LksmsError> {
  try {
    await promise
  } catch (error) {
    assert.ok(error instanceof LksmsError, String(error))
    return error
  }
  assert.fail("the call succeeded")
}

const message = { phone_number: "13800138000", content: "x" }

test("an answer is its data, and the request is as the contract says", async (t) => {
  const { client, got } = await setup(t, [ok({ task_id: "task_1", status: 0, final_content: "x" }), ok([]), ok({ deleted: 0 })])
  assert.equal((await client.send(message)).task_id, "task_1")
  await client.call("pullEvents", { query: { type: ["message.sent", "batch.finished"], company_no: "a b&c" } })
  await client.call("deleteNotifications", { query: { biz_type: 3, biz_ids: [1, 2] } })
  assert.equal(got[0]?.url, "/api/v1/sms/send")
  assert.equal(got[0]?.headers.authorization, "Basic " + Buffer.from("shop:密码").toString("base64"))
  assert.equal(got[0]?.headers["content-type"], "application/json")
  assert.deepEqual(JSON.parse(got[0]?.body ?? ""), message)
  assert.equal(got[1]?.url, "/api/v1/events?type=message.sent&type=batch.finished&company_no=a+b%26c")
  assert.equal(got[2]?.url, "/api/v1/notifications?biz_type=3&biz_ids=1%2C2")
})

test("a part of a path cannot lead to another operation", async (t) => {
  const { client, got } = await setup(t, [ok({})])
  await client.task("a/b?c")
  for (const id of ["", ".", ".."]) await assert.rejects(client.task(id), TypeError)
  assert.deepEqual(
    got.map((request) => request.url),
    ["/api/v1/sms/task/a%2Fb%3Fc"],
  )
})

test("a refusal is a typed error and is not repeated", async (t) => {
  const fields = [{ field: "phone_number", message: "is not a phone number" }]
  const { client, got } = await setup(t, [
    json(422, { code: 422, message: "A field is not valid.", error: { reason: "request.invalid", fields }, docs: "/docs/manual/sending.md#errors", request_id: "r7" }),
    json(409, { code: 409, message: "Gone.", error: { reason: "events.cursor_gone", oldest: "12" }, request_id: "r8", docs: "docs/webhooks.md#pull-events" }),
  ])
  const error = await failureOf(client.send(message))
  assert.match(String(error.docs), /^http:\/\/[^/]+\/docs\/manual\/sending\.md#errors$/)
  assert.deepEqual(
    [error.status, error.reason, error.message, error.fields, error.requestId, error.retryAfter],
    [422, "request.invalid", "A field is not valid.", fields, "r7", undefined],
  )
  const gone = await failureOf(client.call("pullEvents"))
  assert.deepEqual([gone.oldest, gone.docs], ["12", "docs/webhooks.md#pull-events"])
  assert.equal(got.length, 2)
})

test("a lost connection, 503 and 429 are repeated with the same key and the same body", async (t) => {
  const { client, got } = await setup(t, [
    drop,
    fails(503, "unavailable", { "Retry-After": "0" }),
    fails(429, "request.too_much", { "Retry-After": "0" }),
    fails(409, "idempotency.in_flight", { "Retry-After": "0" }),
    ok({ task_id: "task_1", status: 0, final_content: "x" }),
  ])
  assert.equal((await client.send(message)).task_id, "task_1")
  const keys = new Set(got.map((request) => request.headers["idempotency-key"]))
  assert.equal(got.length, 5)
  assert.equal(keys.size, 1)
  assert.match([...keys][0] as string, /^[0-9a-f]{32}$/)
  assert.equal(new Set(got.map((request) => request.body)).size, 1)
})

test("each call has a key of its own, or that of the caller", async (t) => {
  const { client, got } = await setup(t, [ok({}), ok({}), ok({})])
  await client.send(message)
  await client.send(message)
  await client.send(message, { idempotencyKey: "order-42" })
  assert.notEqual(got[0]?.headers["idempotency-key"], got[1]?.headers["idempotency-key"])
  assert.equal(got[2]?.headers["idempotency-key"], "order-42")
})

test("a request that may have been executed is repeated only if that does no harm", async (t) => {
  const { client, got } = await setup(t, [drop, fails(503, "unavailable", { "Retry-After": "0" }), drop, ok({ webhook_id: 7 }), drop, ok()])
  assert.equal((await failureOf(client.call("testWebhook", { path: { webhook_id: 7 } }))).reason, "connection.lost")
  assert.equal((await failureOf(client.call("rotateWebhook", { path: { webhook_id: 7 }, body: { overlap_seconds: 0 } }))).status, 503)
  await client.call("getWebhook", { path: { webhook_id: 7 } })
  await client.report({ task_id: "task_1", app_id: "a", lease_id: 7, status: 2 })
  assert.equal(got.length, 6)
})

test("a report that does not name its lease is not repeated: it could end a later one", async (t) => {
  const { client, got } = await setup(t, [drop, drop, drop, ok([])])
  assert.equal((await failureOf(client.report({ task_id: "task_1", app_id: "a", status: 2 }))).reason, "connection.lost")
  const [first, second] = [{ task_id: "task_1", app_id: "a", lease_id: 7, status: 2 as const }, { task_id: "task_2", app_id: "a", status: 2 as const }]
  assert.equal((await failureOf(client.call("reportTasks", { body: { reports: [first, second] } }))).reason, "connection.lost")
  await client.call("reportTasks", { body: { reports: [first, { ...second, lease_id: 8 }] } })
  assert.equal(got.length, 4)
})

test("429 is repeated for every request: the server refused it", async (t) => {
  const { client, got } = await setup(t, [fails(429, "request.too_much", { "Retry-After": "0" }), ok({ taken: true })])
  await client.call("testWebhook", { path: { webhook_id: 7 } })
  assert.equal(got.length, 2)
})

test("a limit of the recipient is not waited for", async (t) => {
  const { client, got } = await setup(t, [fails(429, "recipient.limited", { "Retry-After": "0" })])
  const error = await failureOf(client.startVerification({ phone_number: "13800138000", purpose: "login" }))
  assert.deepEqual([error.reason, error.retryAfter, got.length], ["recipient.limited", 0, 1])
})

test("a check of a code is not repeated after a lost connection", async (t) => {
  const { client, got } = await setup(t, [drop])
  assert.equal((await failureOf(client.checkVerification("vrf_1", "123456"))).reason, "connection.lost")
  assert.deepEqual([got.length, got[0]?.url, got[0]?.body], [1, "/api/v1/verifications/vrf_1/check", '{"code":"123456"}'])
})

test("Retry-After is waited for, and given to the caller where it is too long", async (t) => {
  const { client, got } = await setup(t, [
    fails(429, "request.too_much", { "Retry-After": "1" }),
    ok({}),
    fails(503, "unavailable", { "Retry-After": "3600" }),
  ])
  const began = Date.now()
  await client.send(message)
  assert.ok(Date.now() - began >= 990)
  const error = await failureOf(client.send(message))
  assert.deepEqual([error.status, error.retryAfter, got.length], [503, 3600, 3])
})

test("attempts end after the retries that are allowed", async (t) => {
  const { client, got } = await setup(t, [], { retries: 1 })
  const error = await failureOf(client.send(message))
  assert.deepEqual([error.status, error.reason, got.length], [0, "connection.lost", 2])
  assert.equal(error.idempotencyKey, got[0]?.headers["idempotency-key"])
})

test("an answer that never comes ends with the timeout, an abort with its reason", async (t) => {
  const silent = () => {}
  const { client, got } = await setup(t, [silent, silent, silent], { timeout: 50, retries: 0 })
  assert.equal((await failureOf(client.send(message))).reason, "connection.timeout")
  const abort = new AbortController()
  const call = client.call("claimTasksNow", { body: { app_id: "a", wait: 30 }, signal: abort.signal })
  setTimeout(() => abort.abort(new Error("stop")), 100) // later than the timeout, which `wait` makes longer
  await assert.rejects(call, /stop/)
  await assert.rejects(client.send(message, { signal: abort.signal }), /stop/)
  assert.equal(got.length, 2)
})

test("an abort ends the pause before another attempt", async (t) => {
  const { client } = await setup(t, [fails(503, "unavailable", { "Retry-After": "20" })])
  const began = Date.now()
  await assert.rejects(client.send(message, { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" })
  assert.ok(Date.now() - began < 5000)
})

test("answers of others than LKSMS are errors, also redirects", async (t) => {
  const page = (status: number, headers: Record<string, string> = {}) => (response: ServerResponse) => {
    response.writeHead(status, { "Content-Type": "text/html", ...headers })
    response.end("<h1>proxy</h1>")
  }
  const cut = (response: ServerResponse) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "100" })
    response.write('{"code":200')
    setTimeout(() => response.destroy(), 20)
  }
  const { client, got } = await setup(t, [page(200), page(302, { Location: "/elsewhere" }), cut, page(502), ok({ task_id: "task_1" }), json(200, { status: "ok" })])
  assert.equal((await failureOf(client.send(message))).reason, "answer.unreadable")
  assert.equal((await failureOf(client.send(message))).status, 302)
  assert.equal((await client.send(message)).task_id, "task_1") // after a cut answer and 502
  assert.equal(got.length, 5)
  assert.equal((await failureOf(client.send(message))).reason, "answer.unreadable") // JSON of somebody else
})

test("a file is its text", async (t) => {
  const { client } = await setup(t, [
    (response) => {
      response.writeHead(200, { "Content-Type": "text/csv; charset=utf-8" })
      response.end("a,b\n1,2\n")
    },
  ])
  const file: string = await client.call("exportBatchErrors", { path: { batch_id: 1 } })
  assert.equal(file, "a,b\n1,2\n")
})

test("claims go on after a lost connection, and stop with the loop", async (t) => {
  const { client, got } = await setup(t, [ok([]), drop, ok([{ task_id: "task_1" }])])
  for await (const tasks of client.claims({ app_id: "a", limit: 5 })) {
    assert.equal(tasks[0]?.task_id, "task_1")
    break
  }
  assert.deepEqual(JSON.parse(got[2]?.body ?? ""), { app_id: "a", limit: 5, wait: 30 })
})

test("claims and events end with the error where no server has ever answered", async (t) => {
  const { client, got } = await setup(t, [], { retries: 1 })
  const signal = AbortSignal.timeout(6000)
  assert.equal((await failureOf(client.claims({ app_id: "a" }, { signal }).next())).reason, "connection.lost")
  assert.equal((await failureOf(client.events({}, { signal }).next())).reason, "connection.lost")
  assert.equal(got.length, 4)
})

test("a certificate that is not trusted is not tried again", async () => {
  let attempts = 0
  const cause = Object.assign(new Error("self-signed certificate"), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" })
  const client = new LksmsClient({
    baseUrl: "https://lksms.example",
    fetch: () => {
      attempts++
      if (attempts === 1) return Promise.resolve(Response.json({ code: 200, data: [{ task_id: "task_1" }] }))
      return Promise.reject(new TypeError("fetch failed", { cause }))
    },
  })
  const claims = client.claims({ app_id: "a" }, { signal: AbortSignal.timeout(6000) })
  await claims.next()
  assert.equal((await failureOf(claims.next())).reason, "certificate.untrusted")
  assert.equal(attempts, 2)
})

test("events begin with the cursor of now and go on from each page", async (t) => {
  const event = { id: "evt_5", type: "message.sent", timestamp: "2023-12-01T10:00:00Z", data: { task_id: "task_1" } }
  const { client, got } = await setup(t, [
    ok({ items: [], next_cursor: "4" }),
    ok({ items: [event], next_cursor: "5" }),
    ok({ items: [], next_cursor: "5" }),
    ok({ items: [], next_cursor: "9" }),
  ])
  const cursors: string[] = []
  for await (const page of client.events({ type: ["message.sent"] })) {
    cursors.push(page.next_cursor)
    if (cursors.length === 3) break
  }
  assert.deepEqual(cursors, ["4", "5", "9"])
  assert.deepEqual(
    got.map((request) => request.url),
    [
      "/api/v1/events?type=message.sent",
      "/api/v1/events?wait=30&type=message.sent&after=4",
      "/api/v1/events?wait=30&type=message.sent&after=5",
      "/api/v1/events?wait=30&type=message.sent&after=5",
    ],
  )
})

test("an address or a header that cannot be is said at once", () => {
  assert.throws(() => new LksmsClient({ baseUrl: "127.0.0.1:8000" }), TypeError)
  for (const baseUrl of ["https://shop:secret@lksms.example", "https://shop:secret@", "https://lksms.example?a", "https://lksms.example#"]) {
    assert.throws(() => new LksmsClient({ baseUrl }), (error) => error instanceof TypeError && !JSON.stringify([error, error.message, error.cause]).includes("secret"))
  }
  assert.throws(() => new LksmsClient({ baseUrl: "http://127.0.0.1", credentials: { apiKey: "a\nb" } }), TypeError)
})
