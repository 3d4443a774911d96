import assert from "node:assert/strict"
import { createHmac } from "node:crypto"
import test from "node:test"
import { verifyWebhook, WebhookError, type WebhookPost } from "lksms-client"

const secret = "whsec_" + Buffer.from("a key of 24 bytes at most").toString("base64")
const other = "whsec_" + Buffer.from("another key").toString("base64")
const now = Date.UTC(2026, 10, 24)
const body = '{"type":"message.sent","timestamp":"2026-11-24T00:00:00Z","data":{"task_id":"task_1","result":"发送成功"}}'

const sign = (text: string, id = "evt_1", timestamp = now / 1000, by = secret) =>
  "v1," + createHmac("sha256", Buffer.from(by.slice(6), "base64")).update(`${id}.${timestamp}.${text}`).digest("base64")

const post = (changes: Partial<WebhookPost> = {}, headers: Record<string, string | undefined> = {}): WebhookPost => ({
  headers: { "webhook-id": "evt_1", "webhook-timestamp": String(now / 1000), "webhook-signature": sign(body), ...headers },
  body,
  secret,
  now,
  ...changes,
})

async function reasonOf(bad: WebhookPost): Promise<string> {
  try {
    await verifyWebhook(bad)
  } catch (error) {
    assert.ok(error instanceof WebhookError, String(error))
    return error.reason
  }
  return "none"
}

test("a signed post is its event", async () => {
  for (const good of [
    post(),
    post({ body: new TextEncoder().encode(body) }),
    post({ body: Buffer.from(body) }),
    post({ headers: new Headers(post().headers as Record<string, string>) }),
    post({ headers: { "Webhook-Id": "evt_1", "Webhook-Timestamp": String(now / 1000), "Webhook-Signature": [sign(body)] } }),
  ]) {
    const event = await verifyWebhook(good)
    assert.equal(event.id, "evt_1")
    assert.equal(event.type, "message.sent")
    assert.deepEqual(event.data, { task_id: "task_1", result: "发送成功" })
  }
})

// The example that the specification of Standard Webhooks gives.
test("the example of Standard Webhooks is verified", async () => {
  const example = {
    headers: {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    body: '{"test": 2432232314}',
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    now: 1614265330000,
  }
  assert.equal((await verifyWebhook(example)).id, "msg_p5jXN8AQM9LWM0D4loKWxJek")
})

test("while a secret is replaced, one of several signatures and one of several secrets are enough", async () => {
  const both = `${sign(body, "evt_1", now / 1000, other)} v1a,unknown v1,notbase64! ${sign(body)}`
  assert.equal(await reasonOf(post({}, { "webhook-signature": both })), "none")
  assert.equal(await reasonOf(post({ secret: [other, secret] })), "none")
  assert.equal(await reasonOf(post({ secret: other })), "signature")
})

test("another body, id, time, secret or version is not believed", async () => {
  assert.equal(await reasonOf(post({ body: body.replace("task_1", "task_2") })), "signature")
  assert.equal(await reasonOf(post({}, { "webhook-id": "evt_2" })), "signature")
  assert.equal(await reasonOf(post({}, { "webhook-timestamp": String(now / 1000 + 1) })), "signature")
  assert.equal(await reasonOf(post({}, { "webhook-signature": sign(body).replace("v1,", "v2,") })), "signature")
  assert.equal(await reasonOf(post({}, { "webhook-signature": sign(body).slice(0, 20) })), "signature")
  assert.equal(await reasonOf(post({}, { "webhook-signature": "v1," })), "signature")
})

test("a post that is too old or too new is not believed", async () => {
  for (const [seconds, reason] of [[-301, "timestamp"], [-299, "none"], [299, "none"], [301, "timestamp"]] as const) {
    const time = now / 1000 + seconds
    const headers = { "webhook-timestamp": String(time), "webhook-signature": sign(body, "evt_1", time) }
    assert.equal(await reasonOf(post({}, headers)), reason, `${seconds} seconds`)
    assert.equal(await reasonOf(post({ tolerance: 400 }, headers)), "none")
  }
  assert.equal(await reasonOf(post({}, { "webhook-timestamp": "now" })), "timestamp")
})

test("missing headers, a body that is not JSON and a secret that is none are told", async () => {
  for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
    assert.equal(await reasonOf(post({}, { [name]: undefined })), "headers")
  }
  assert.equal(await reasonOf(post({ body: "x" }, { "webhook-signature": sign("x") })), "body")
  await assert.rejects(verifyWebhook(post({ secret: "password" })), TypeError)
  await assert.rejects(verifyWebhook(post({ secret: "whsec_" })), TypeError)
})
