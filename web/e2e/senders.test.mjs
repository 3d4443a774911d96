import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { admin, openPage, startBrowser, startServer } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

test('新增手机发送方，限额一目了然，扫码配对，暂停和恢复', async () => {
  const viewer = await openPage(browser, server, { language: 'zh', expected: [/^422 POST \S+\/api\/v1\/admin\/senders$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'senders')
  await page.getByText('还没有发送方').waitFor()
  await viewer.checkAccess('no senders')
  await page.getByRole('button', { name: '新增发送方' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('名称', { exact: true }).fill('前台手机')
  await form.getByRole('button', { name: '保存' }).click()
  await form.locator('.el-form-item.is-error').first().waitFor() // the number is missing
  await form.getByLabel('发送方编号').fill('phone_7')
  await form.getByLabel('每天条数').fill('500')
  await viewer.checkAccess('form of an app')
  await viewer.screenshot('sender-form')
  await form.getByRole('button', { name: '保存' }).click()

  const pairing = page.getByRole('dialog', { name: /配对/ })
  await pairing.getByLabel('服务器地址').fill('http://sms.example.com:8000/app/')
  await pairing.getByRole('button', { name: '生成二维码' }).click()
  await pairing.getByRole('img', { name: '配对二维码' }).waitFor()
  await viewer.checkAccess('pairing')
  await viewer.screenshot('pairing')
  const [address, app, username, password] = await pairing.locator('dd').allTextContents()
  assert.deepEqual([address, app, username], ['http://sms.example.com:8000/app', 'phone_7', 'phone_7'])
  assert.match(password, /^lksms_/)
  await pairing.getByRole('button', { name: '已完成配对' }).click()
  assert.equal(await page.getByText(password).count(), 0, 'the key is shown once')

  const row = page.getByRole('row').filter({ hasText: '前台手机' })
  await row.getByText('未连接').waitFor()
  await row.getByText('0 / 500 (0%)').waitFor()
  await server.api('GET', '/app/api/v1/sms/tasks/pending?app_id=phone_7', undefined, { username, password }) // the phone, as it was paired
  await row.getByRole('button', { name: '暂停' }).click()
  await row.getByText('已暂停，不取任务。').waitFor()
  await row.getByRole('button', { name: '恢复' }).click()
  await row.getByText('已暂停，不取任务。').waitFor({ state: 'detached' })
  await viewer.checkAccess('senders')
  await viewer.finish()
})

test('a provider keeps its secrets, its balance is topped up, and a test message shows its answer', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^422 PATCH \S+\/api\/v1\/admin\/senders\/provider$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'senders')
  await page.getByRole('button', { name: 'Add a sender' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Kind').click({ force: true })
  await page.getByRole('option', { name: 'SMS provider over HTTP' }).click()
  await form.getByLabel('Sender number').fill('provider')
  await form.getByLabel('Name', { exact: true }).fill('Provider')
  await form.getByLabel('Address', { exact: true }).fill(`${server.url}/api/v1/nothing?key=1`)
  await form.getByRole('button', { name: 'Secrets: add one' }).click()
  await form.getByLabel('Secrets: name 1').fill('key')
  await form.getByLabel('Secrets: value 1').fill('a secret')
  await form.getByLabel('Body (JSON)').fill('{"to": "${digits}"')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.getByText('This is not valid JSON').waitFor()
  await form.getByLabel('Body (JSON)').fill('{"to": "${digits}", "text": "${content}", "key": "${secrets.key}"}')
  await viewer.checkAccess('form of a provider')
  await viewer.screenshot('provider-form')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('link', { name: 'Provider', exact: true }).click()

  await page.getByRole('heading', { level: 1, name: 'Provider' }).waitFor()
  await page.getByRole('button', { name: 'Edit', exact: true }).click()
  await form.getByRole('button', { name: 'Replace “Secrets”' }).waitFor()
  await form.getByLabel('Name', { exact: true }).fill('Our provider')
  await form.getByLabel('Address', { exact: true }).fill('https://elsewhere.example.com/send')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.locator('.el-form-item.is-error').filter({ hasText: 'Secrets' }).waitFor() // secrets do not go to another host
  await form.getByRole('button', { name: 'Cancel' }).click()
  await form.getByRole('button', { name: 'Discard changes' }).click()
  await page.getByRole('button', { name: 'Top up or correct' }).click()
  await form.getByLabel('Change in segments').fill('1000')
  await form.getByText('Balance: – → 1,000').waitFor()
  await form.getByLabel('Remark').fill('invoice 1042')
  await form.getByRole('button', { name: 'Change the balance' }).click()
  await page.getByRole('row').filter({ hasText: 'Top-up · invoice 1042 · by admin' }).getByText('+1,000').waitFor()

  await page.getByRole('button', { name: 'Test message' }).click()
  await form.getByLabel('Phone number').fill('13800138000')
  await form.getByText('This sender can send it').waitFor()
  await viewer.checkAccess('test message')
  await viewer.screenshot('sender-test')
  await form.getByRole('button', { name: 'Send the test message' }).click()
  // The address does not exist: 404 is the trouble of the sender.
  await page.getByText(/(Open: nothing is sent|Half open: one message is tried)$/).waitFor()
  await page.getByText('The circuit breaker opened').waitFor()
  await viewer.checkAccess('sender in trouble')
  await viewer.screenshot('sender', { fullPage: true })
  await viewer.finish()
})

test('a reader of one company changes nothing', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'Acme' })
  await server.api('POST', '/api/v1/admin/routes', { company_no: 'acme', message_type: 'marketing', sender_no: 'provider' })
  await server.api('POST', '/api/v1/admin/users', { username: 'reader', password: 'a-long-password', role: 'read', company_no: 'acme' })
  const viewer = await openPage(browser, server, { language: 'en', narrow: true, dark: true })
  const { page } = viewer
  await viewer.signIn({ username: 'reader', password: 'a-long-password' }, 'senders')
  await page.getByRole('link', { name: 'Provider', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Provider' }).waitFor()
  await page.getByRole('heading', { name: 'Ledger' }).waitFor()
  for (const name of ['Edit', 'Pause', 'Test message', 'Top up or correct', 'Delete', 'Retire']) assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name)
  await viewer.checkAccess('sender of a reader')
  await viewer.screenshot('sender-reader', { fullPage: true })
  await viewer.finish()
})
