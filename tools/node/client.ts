// The main job through a client that another ecosystem generated: submit, claim, report, look.
import assert from "node:assert/strict"
import test from "node:test"
import createClient from "openapi-fetch"
import type { paths } from "./generated/schema.js"

const { LKSMS_URL, BASIC_AUTH_USERNAME, BASIC_AUTH_PASSWORD } = process.env
const client = createClient<paths>({
  baseUrl: LKSMS_URL ?? "",
  headers: {
    Authorization: "Basic " + Buffer.from(`${BASIC_AUTH_USERNAME}:${BASIC_AUTH_PASSWORD}`).toString("base64"),
  },
})
const app_id = "typescript_app"

async function submit(phone_number: string, content: string): Promise<string> {
  const { data, error } = await client.POST("/api/v1/sms/send", { body: { phone_number, content } })
  assert.equal(error, undefined)
  assert.equal(data?.data.status, 0)
  assert.equal(data.data.final_content, content)
  return data.data.task_id
}

test("a message is submitted, claimed, reported and seen", async () => {
  const task_id = await submit("13800138000", "您的快递已到，请及时领取")

  const claimed = await client.GET("/api/v1/sms/tasks/pending", { params: { query: { app_id, limit: 1 } } })
  const task = claimed.data?.data[0]
  assert.equal(task?.task_id, task_id)
  assert.equal(task.attempt, 1)

  const reported = await client.POST("/api/v1/sms/report", {
    body: { task_id, app_id, status: 2, lease_id: task.lease_id },
  })
  assert.deepEqual(reported.data, { code: 200, message: "success" })

  const seen = await client.GET("/api/v1/sms/task/{task_id}", { params: { path: { task_id } } })
  assert.equal(seen.data?.data.status, 2)
  assert.ok(seen.data.data.sent_at)

  const timeline = await client.GET("/api/v1/sms/task/{task_id}/timeline", { params: { path: { task_id } } })
  assert.deepEqual(timeline.data?.data.map((e) => e.event), ["received", "claimed", "reported"])

  const statistics = await client.GET("/api/v1/admin/task-statistics")
  assert.equal(statistics.data?.data.success_tasks, 1)
})

test("a failure that is worth another attempt comes back", async () => {
  const task_id = await submit("13900139000", "重试")
  for (const attempt of [1, 2]) {
    const claimed = await client.GET("/api/v1/sms/tasks/pending", { params: { query: { app_id } } })
    assert.deepEqual(claimed.data?.data.map((t) => [t.task_id, t.attempt]), [[task_id, attempt]])
    await client.POST("/api/v1/sms/report", {
      body: { task_id, app_id, status: 3, should_retry: attempt === 1, error_message: "网络超时" },
    })
  }
  const seen = await client.GET("/api/v1/sms/task/{task_id}", { params: { path: { task_id } } })
  assert.equal(seen.data?.data.status, 3)
})

test("an error is typed and names the field", async () => {
  const { error, response } = await client.POST("/api/v1/sms/send", { body: { phone_number: "12345678901", content: "x" } })
  assert.equal(response.status, 422)
  assert.equal(error?.error.reason, "request.invalid")
  assert.deepEqual(error.error.fields?.map((f) => f.field), ["phone_number"])
})
