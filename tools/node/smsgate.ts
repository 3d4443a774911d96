// The main job through SMSGate's own client, to which only the address and the credentials are new: health, a message to two recipients, its state, a
// webhook whose signature is checked, an answer in the inbox, and a refusal.
import assert from "node:assert/strict"
import { createHmac } from "node:crypto"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import test from "node:test"
import Client, { HealthStatus, ProcessState, WebHookEventType } from "android-sms-gateway"
import type { HttpClient, WebHookPayload } from "android-sms-gateway"

const { LKSMS_URL, BASIC_AUTH_USERNAME, BASIC_AUTH_PASSWORD } = process.env
const app_id = "smsgate_app"

// What the program does as its administrator, and the app as a sender.
async function lksms(method: string, path: string, body?: object) {
  const response = await fetch(`${LKSMS_URL}/api/v1${path}`, {
    method,
    headers: {
      Authorization: "Basic " + Buffer.from(`${BASIC_AUTH_USERNAME}:${BASIC_AUTH_PASSWORD}`).toString("base64"),
      "Content-Type": "application/json",
    },
    ...(body && { body: JSON.stringify(body) }),
  })
  const answer = await response.json()
  assert.equal(response.status, 200, JSON.stringify(answer))
  return answer.data
}

class Refused extends Error {
  constructor(readonly status: number, text: string) {
    super(text)
  }
}

async function call(method: string, url: string, headers?: Record<string, string>, body?: unknown) {
  const response = await fetch(url, { method, headers: headers ?? {}, ...(body !== undefined && { body: JSON.stringify(body) }) })
  const text = await response.text()
  if (!response.ok) throw new Refused(response.status, text)
  return text === "" ? null : JSON.parse(text)
}

// The client leaves the transport to its program.
const http: HttpClient = {
  get: (url, headers) => call("GET", url, headers),
  post: (url, body, headers) => call("POST", url, headers, body),
  put: (url, body, headers) => call("PUT", url, headers, body),
  patch: (url, body, headers) => call("PATCH", url, headers, body),
  delete: (url, headers) => call("DELETE", url, headers),
}

async function eventually(what: string, holds: () => Promise<boolean>) {
  for (const until = Date.now() + 30_000; Date.now() < until; await new Promise((done) => setTimeout(done, 50))) {
    if (await holds()) return
  }
  assert.fail(`never happened: ${what}`)
}

interface Post {
  raw: string
  signature: string
  timestamp: string
}

test("a program written for SMSGate sends, follows and hears of its messages", async (t) => {
  const posts: Post[] = []
  const receiver = createServer((request, response) => {
    let raw = ""
    request.on("data", (part) => (raw += part))
    request.on("end", () => {
      posts.push({ raw, signature: String(request.headers["x-signature"]), timestamp: String(request.headers["x-timestamp"]) })
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((listening) => receiver.listen(0, "127.0.0.1", listening))
  t.after(() => receiver.close())

  // An admin, because the receiver is on loopback, which webhooks of other users do not reach.
  const [username, password] = ["shop", "a password of the shop"]
  await lksms("POST", "/admin/users", { username, password, role: "admin" })
  const client = new Client(username, password, http, `${LKSMS_URL}/smsgate/3rdparty/v1`)
  assert.equal((await client.getHealth()).status, HealthStatus.Pass)

  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  const hook = await client.registerWebhook({ url, event: WebHookEventType.SmsSent })
  assert.deepEqual((await client.getWebhooks()).map((w) => [w.id, w.url, w.event]), [[hook.id, url, "sms:sent"]])
  const signingKey = "the key that the receiver has"
  await client.patchSettings({ webhooks: { signingKey } })

  const phoneNumbers = ["+8613800138000", "+8613900139000"]
  const sent = await client.send({ id: "order-7", message: "您的快递已到", phoneNumbers, ttl: 3600, withDeliveryReport: true })
  assert.equal(sent.state, ProcessState.Pending)
  assert.deepEqual(sent.recipients.map((r) => r.phoneNumber), phoneNumbers)

  const tasks = await lksms("GET", `/sms/tasks/pending?app_id=${app_id}`)
  assert.equal(tasks.length, 2)
  assert.equal((await client.getState(sent.id)).state, ProcessState.Processed)
  for (const { task_id, lease_id } of tasks) await lksms("POST", "/sms/report", { task_id, app_id, lease_id, status: 2 })
  const state = await client.getState(sent.id)
  assert.equal(state.state, ProcessState.Sent)
  assert.deepEqual(state.recipients.map((r) => r.state), ["Sent", "Sent"])

  await eventually("both messages are posted", async () => posts.length >= 2)
  for (const { raw, signature, timestamp } of posts) {
    assert.equal(signature, createHmac("sha256", signingKey).update(raw + timestamp).digest("hex"))
    const body = JSON.parse(raw) as WebHookPayload & { webhookId: string }
    assert.ok(body.event === WebHookEventType.SmsSent)
    assert.equal(body.webhookId, hook.id)
    assert.equal(body.payload.messageId, sent.id)
    assert.ok(Date.parse(body.payload.sentAt) > 0)
  }
  await client.deleteWebhook(hook.id ?? "")
  assert.deepEqual(await client.getWebhooks(), [])

  posts.length = 0
  const incoming = await client.registerWebhook({ url, event: WebHookEventType.SmsReceived })
  await client.patchSettings({ webhooks: { signingKey } })
  const received_at = `${new Date().toISOString().slice(0, 19)}Z` // a person answers after the message; a second is the finest time of the network
  const answer = { from: phoneNumbers[0], content: "谢谢", sim: 2, received_at }
  await lksms("POST", "/sms/received", { app_id, messages: [answer] })
  await eventually("the answer is posted", async () => posts.length > 0)
  const { raw, signature, timestamp } = posts[0]!
  assert.equal(signature, createHmac("sha256", signingKey).update(raw + timestamp).digest("hex"))
  const body = JSON.parse(raw) as WebHookPayload
  assert.ok(body.event === WebHookEventType.SmsReceived)
  assert.deepEqual([body.payload.message, body.payload.phoneNumber], ["谢谢", phoneNumbers[0]])
  assert.equal(Date.parse(body.payload.receivedAt), Date.parse(received_at))
  await client.deleteWebhook(incoming.id ?? "")
  // This version of the client cannot read the inbox, so its transport does.
  const authorization = "Basic " + Buffer.from(`${username}:${password}`).toString("base64")
  const inbox = await http.get<Record<string, unknown>[]>(`${LKSMS_URL}/smsgate/3rdparty/v1/inbox?type=SMS`, { Authorization: authorization })
  assert.deepEqual(inbox.map((m) => [m.type, m.sender, m.contentPreview, m.simNumber]), [["SMS", phoneNumbers[0], "谢谢", 2]])

  assert.ok((await client.getDevices()).some((device) => device.id === app_id && Date.parse(device.lastSeen) > 0))
  assert.deepEqual(await client.getSettings(), {})

  const refusals: [number, RegExp, () => Promise<unknown>][] = [
    [409, /already exists/, () => client.send({ id: "order-7", message: "again", phoneNumbers })],
    [400, /phoneNumbers\[0\]/, () => client.send({ message: "x", phoneNumbers: ["12"] })],
    [404, /no such message/, () => client.getState("nothing")],
    [501, /logs/, () => client.getLogs()],
    [501, /no device is a phone/, () => client.exportInbox({ deviceId: app_id, since: new Date(0), until: new Date() })],
    [404, /no such sender/, () => client.deleteDevice("nobody")],
  ]
  for (const [status, text, refused] of refusals) {
    await assert.rejects(refused, (e: Refused) => {
      assert.equal(e.status, status, e.message)
      assert.match(JSON.parse(e.message).message, text)
      return true
    })
  }
})
