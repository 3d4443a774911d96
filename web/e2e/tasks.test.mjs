import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { admin, openPage, startBrowser, startServer, waitForCount } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

const send = (phone_number, content, more = {}, as = admin) => server.api('POST', '/api/v1/sms/send', { phone_number, content, ...more }, as)
const claim = (app_id) => server.api('POST', '/api/v1/sms/tasks/claim', { app_id, limit: 10 })
const report = (task, app_id, body) => server.api('POST', '/api/v1/sms/report', { task_id: task.task_id, lease_id: task.lease_id, app_id, ...body })

test('a task shows why it waits, is cancelled, requeued and sent', async () => {
  const viewer = await openPage(browser, server, { language: 'zh' })
  const { page } = viewer
  await viewer.signIn(admin, 'tasks')
  await page.getByText('还没有任务').waitFor()
  await viewer.checkAccess('no tasks')

  const { task_id } = await send('13800138001', '您的快递已到', { sign: '测试' })
  await page.getByLabel('手机号或任务编号').fill('138 0013 8001')
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: '【测试】您的快递已到' }).waitFor()
  assert.equal(new URL(page.url()).searchParams.get('phone_number'), '138 0013 8001')
  assert.equal(await page.getByText('13800138001').count(), 0, 'numbers are masked')
  await viewer.checkAccess('tasks')
  await page.getByRole('link', { name: '【测试】您的快递已到' }).click()

  await page.getByText('没有可用的发送方').waitFor() // why it waits
  await page.getByText('没有共享发送方').waitFor()
  await viewer.checkAccess('waiting task')
  await page.getByRole('button', { name: '取消任务' }).click()
  await page.getByRole('dialog').getByText('取消发给 138****8001 的短信？').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: '取消任务' }).click()
  await page.getByText('admin 取消').waitFor()
  await page.getByRole('heading', { level: 1 }).getByText('已取消').waitFor()

  await page.getByRole('button', { name: '重新入队' }).click()
  await page.getByRole('dialog').getByLabel('原因').fill('客户要求')
  await viewer.checkAccess('requeue form')
  await page.getByRole('dialog').getByRole('button', { name: '重新入队' }).click()
  await page.getByText('admin 重新入队').waitFor()
  await page.getByText('客户要求', { exact: true }).waitFor()

  const [task] = await claim('zh-phone')
  assert.equal(task.task_id, task_id)
  await page.getByText('zh-phone 领取（第 1 次尝试）').waitFor() // without reloading
  await report(task, 'zh-phone', { status: 2 })
  await page.getByText('zh-phone 上报：成功').waitFor()
  await page.getByRole('heading', { level: 1 }).getByText('成功').waitFor()
  await viewer.checkAccess('sent task')
  await viewer.screenshot('task', { fullPage: true })
  await viewer.finish()
})

test('a task is found by its id, and a wrong filter shows an error', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^422 GET \S+\/api\/v1\/sms\/tasks/, /^404 GET \S+\/api\/v1\/sms\/task\//] })
  const { page } = viewer
  const { task_id } = await send('13800138002', 'Find me')
  await viewer.signIn(admin, 'tasks')
  await page.getByLabel('Phone number or task id').fill(task_id)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Task', exact: false }).getByText('Pending').waitFor()
  await page.getByText('Find me').waitFor()
  assert.equal(new URL(page.url()).pathname, `/console/tasks/${task_id}`)
  await page.goBack()
  await page.getByLabel('Phone number or task id').fill('123')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText(/^phone_number: /).waitFor()
  for (const text of ['oUpF8uMuAJO_M2pxb1Q9zNjWeS6o', 'zhang@example.com']) {
    await page.getByLabel('Phone number or task id').fill(text)
    await page.keyboard.press('Enter')
    await page.getByText('Tasks are found by a phone number or by a task id').last().waitFor()
    assert.equal(new URL(page.url()).pathname, '/console/tasks')
  }
  await viewer.checkAccess('wrong filter')
  // The task itself is answered last: what belongs to it says nothing before.
  let early
  const others = ['timeline', 'explain'].map((name) => page.waitForResponse(`**/task_20200101_nothing/${name}`))
  await page.route('**/api/v1/sms/task/task_20200101_nothing', async (route) => {
    for (const other of others) await (await other).finished()
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))) // the page has drawn both
    early = await page.getByRole('alert').count()
    await route.continue()
  })
  await viewer.go('tasks/task_20200101_nothing')
  await page.getByRole('alert').getByText('There is no such task').waitFor()
  assert.equal(early, 0)
  await viewer.finish()
})

test('a job shows its number of failed tasks before it requeues them', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^409 POST \S+\/api\/v1\/admin\/task-jobs$/] })
  const { page } = viewer
  const fail = async (n) => {
    await server.api('POST', '/api/v1/sms/send-batch', { messages: Array.from({ length: n }, (_, i) => ({ phone_number: `1390013${String(Date.now() % 1000).padStart(3, '0')}${i}`.slice(0, 11), content: `Many ${i}`, source: 'many' })) })
    for (const task of await claim('many-phone')) await report(task, 'many-phone', { status: 3, error_message: 'no signal' })
  }
  for (const task of await claim('many-phone')) await report(task, 'many-phone', { status: 2 }) // nothing else waits
  await fail(3)
  await viewer.signIn(admin, 'tasks?source=many')
  await page.getByText('Many 2').waitFor()
  await page.getByRole('button', { name: 'Cancel or requeue many' }).click()
  const form = page.getByRole('dialog')
  await form.getByText('Source: many').waitFor()
  await form.getByText('3 tasks').waitFor()
  await viewer.checkAccess('job form')
  await viewer.screenshot('job-form')
  await form.getByLabel('Type the number 3').fill('4')
  await form.getByRole('button', { name: 'Requeue these tasks' }).click()
  await form.getByText('is not the number of tasks: type 3').waitFor()
  await fail(1) // meanwhile
  await form.getByLabel('Type the number 3').fill('3')
  await form.getByRole('button', { name: 'Requeue these tasks' }).click()
  await form.getByText('4 tasks', { exact: true }).waitFor()
  await form.getByText('The filter now selects 4 tasks').waitFor()
  await form.getByLabel('Type the number 4').fill('4')
  await form.getByLabel('Reason').fill('the mast was down')
  await form.getByRole('button', { name: 'Requeue these tasks' }).click()
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
  await page.getByText('4 of 4').waitFor()
  await page.getByText(/Finished$/).waitFor()
  await viewer.checkAccess('jobs')
  await viewer.screenshot('jobs')
  await page.getByRole('link', { name: 'Show these tasks' }).click()
  await page.getByRole('link', { name: 'Many 2' }).waitFor()
  await waitForCount(page.getByRole('row').filter({ hasText: 'Pending' }), 4)
  await viewer.finish()
})

test('a reader of a company sees its tasks, and no buttons that the API refuses', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  const submitter = { username: 'acme-app', password: 'password-of-acme-app' }
  const reader = { username: 'acme-reader', password: 'password-of-acme-reader' }
  await server.api('POST', '/api/v1/admin/users', { ...submitter, role: 'submit', company_no: 'acme' })
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read', company_no: 'acme' })
  const { task_id } = await send('13800138003', 'Only for ACME', {}, submitter)
  for (const [user, buttons] of [[reader, 0], [submitter, 1]]) {
    const viewer = await openPage(browser, server, { language: 'en' })
    const { page } = viewer
    await viewer.signIn(user, 'tasks')
    await page.getByRole('link', { name: 'Only for ACME' }).waitFor()
    assert.equal(await page.getByText('Many').count(), 0, 'tasks of other companies are hidden')
    await page.getByRole('button', { name: 'More filters' }).click()
    assert.equal(await page.getByLabel('Company').count(), 0)
    assert.equal(await page.getByRole('button', { name: 'Cancel or requeue many' }).count(), 0)
    assert.equal(await page.getByRole('button', { name: 'Write a message' }).count(), buttons)
    await viewer.go(`tasks/${task_id}`)
    await page.getByText('Only for ACME').waitFor()
    await page.getByText('Received', { exact: true }).first().waitFor()
    assert.equal(await page.getByRole('button', { name: 'Cancel the task' }).count(), buttons)
    assert.equal(await page.getByRole('link', { name: 'Simulated phone' }).count(), 0)
    await viewer.finish()
  }
})

test('a task has links to its notification and its person, and shows its company and channel', async () => {
  const notifier = { username: 'of-beta', password: 'password-of-beta' }
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'beta', name: 'Beta' })
  await server.api('POST', '/api/v1/admin/users', { ...notifier, role: 'submit', company_no: 'beta' })
  await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id: 'wu', email: 'wu@example.com' }] }, notifier)
  const made = await server.api('POST', '/api/v1/notifications', { biz_type: 3, biz_id: 5, channels: ['email'], payload: { taskName: 'Linked' }, user_ids: ['wu'] }, notifier)
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'tasks')
  const row = page.getByRole('row').filter({ hasText: 'Linked' })
  await row.getByText('email', { exact: true }).waitFor()
  await row.getByText('beta', { exact: true }).waitFor()
  await viewer.checkAccess('tasks of companies')
  await viewer.go('tasks?message_type=marketing')
  await page.getByText('Nothing matches').waitFor()
  await viewer.checkAccess('tasks of a type')
  await viewer.go('tasks?message_type=notification')
  await row.getByRole('link').first().click()
  await page.getByRole('link', { name: 'wu', exact: true }).waitFor()
  assert.match(await page.getByRole('link', { name: 'wu', exact: true }).getAttribute('href'), /company_no=beta/)
  await viewer.checkAccess('task of a notification')
  await page.getByRole('link', { name: String(made.items[0].notification_id), exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Notification' }).waitFor()
  await viewer.finish()
})

test('a job cannot start if no task matches its filters', async () => {
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'tasks?source=of-nobody')
  await page.getByRole('button', { name: 'Cancel or requeue many' }).click()
  await page.getByRole('dialog').getByText('0 tasks').waitFor()
  assert.ok(await page.getByRole('dialog').getByRole('button', { name: 'Requeue these tasks' }).isDisabled())
  await viewer.finish()
})
