import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { admin, languages, openPage, startBrowser, startServer } from './harness.mjs'

let server, browser, receiver
const posts = []
let status = 204
before(async () => {
  receiver = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    posts.push({ headers: request.headers, body })
    response.writeHead(status).end(status === 204 ? undefined : 'the receiver is away')
  })
  await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
  receiver?.closeAllConnections()
  receiver?.close()
})

const address = () => `http://127.0.0.1:${receiver.address().port}/lksms`
const isSigned = ({ headers, body }, secret) => {
  const signature = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64')).update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`).digest('base64')
  return headers['webhook-signature'].split(' ').includes(`v1,${signature}`)
}

/** Sends a message and reports it, so that an event happens. */
async function deliver() {
  const { task_id } = await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138000', content: '您的快递已到' })
  const [task] = await server.api('POST', '/api/v1/sms/tasks/claim', { app_id: 'webhooks_app', wait: 10 })
  await server.api('POST', '/api/v1/sms/report', { task_id, app_id: 'webhooks_app', lease_id: task.lease_id, status: 2 })
  return task_id
}

test('a webhook is rejected if invalid, added with a secret that is shown once, and tested, and its page shows its posts', async () => {
  const viewer = await openPage(browser, server, { expected: [/^422 POST \S+\/webhooks$/, /^422 POST \S+\/replay$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'webhooks')
  await page.getByText('还没有 Webhook').waitFor()
  await viewer.checkAccess('no webhooks')

  await page.getByRole('button', { name: '新增 Webhook' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('地址').fill('ftp://shop.example')
  await form.getByRole('button', { name: '保存' }).click()
  const wrong = form.locator('.el-form-item.is-error')
  await wrong.waitFor()
  assert.match(await wrong.innerText(), /^地址/)
  await viewer.checkAccess('refused webhook')
  await viewer.screenshot('webhook-form')
  await form.getByLabel('地址').fill(address())
  await form.getByLabel('说明').fill('订单系统')
  await form.getByRole('button', { name: '保存' }).click()

  const secretField = page.getByRole('textbox', { name: '签名密钥' })
  const secret = await secretField.inputValue()
  assert.match(secret, /^whsec_/)
  await viewer.checkAccess('new secret')
  await viewer.screenshot('webhook-secret')
  await page.keyboard.press('Escape')
  assert.equal(await secretField.inputValue(), secret, 'only the button closes a secret')
  await page.getByRole('button', { name: '已保存，关闭' }).click()
  await secretField.waitFor({ state: 'hidden' })
  const row = page.getByRole('row').filter({ hasText: '订单系统' })
  await row.getByText('所有公司').waitFor()
  await viewer.checkAccess('webhooks')
  await viewer.screenshot('webhooks')

  await row.getByRole('link').click()
  await page.getByText('还没有推送').waitFor()
  await page.getByRole('button', { name: '推送测试事件' }).click()
  await page.getByText('回答 204').first().waitFor()
  assert.ok(isSigned(posts[0], secret))
  assert.equal(await page.getByRole('button', { name: /^再次推送/ }).count(), 0, 'a test is not posted again')
  status = 503
  await deliver()
  const failed = page.getByRole('row').filter({ hasText: '接收方回答了 503，不是 2xx' }).first() // the post can already be repeated
  await failed.waitFor()
  await page.getByText('1 个事件等待重试').waitFor()
  await viewer.checkAccess('webhook')
  await viewer.screenshot('webhook', { fullPage: true })
  await failed.getByRole('button', { name: /^推送详情/ }).click()
  const drawer = page.getByRole('dialog')
  await drawer.getByText('您的快递已到').waitFor({ state: 'detached' }) // an event has no text of a message
  await drawer.getByText('message.sent').first().waitFor()
  await drawer.getByText('the receiver is away').waitFor()
  await viewer.checkAccess('post')
  await viewer.screenshot('webhook-post')
  await page.keyboard.press('Escape')

  // The receiver is back.
  status = 204
  await page.getByRole('button', { name: '重新推送', exact: true }).click()
  await form.getByText('按事件编号').click()
  await form.getByLabel('事件编号').last().fill('event 7')
  await form.getByRole('button', { name: '重新推送' }).click()
  await form.locator('.el-form-item.is-error').waitFor()
  await viewer.checkAccess('refused replay')
  await form.getByText('按时间').click()
  await form.getByRole('button', { name: '重新推送' }).click()
  await page.getByText(/正在重新推送 \d+ 个事件/).waitFor()
  const taken = page.getByRole('row').filter({ hasText: '短信已发送' }).filter({ hasText: '回答 204' })
  await taken.first().waitFor()
  const count = posts.length
  await taken.first().getByRole('button', { name: /^再次推送/ }).click()
  await page.getByText('正在重新推送 1 个事件').waitFor()
  for (const end = Date.now() + 15_000; posts.length === count && Date.now() < end; ) await page.waitForTimeout(100)
  assert.equal(posts.at(-1).headers['webhook-id'], posts.at(-2).headers['webhook-id'])

  await page.getByRole('button', { name: '更换密钥' }).click()
  await viewer.checkAccess('rotate')
  await form.getByRole('button', { name: '更换密钥' }).click()
  const second = await secretField.inputValue()
  assert.notEqual(second, secret)
  await page.getByRole('button', { name: '已保存，关闭' }).click()
  await page.getByRole('button', { name: '推送测试事件' }).click()
  for (const end = Date.now() + 15_000; !isSigned(posts.at(-1), second) && Date.now() < end; ) await page.waitForTimeout(100)
  assert.ok(isSigned(posts.at(-1), second) && isSigned(posts.at(-1), secret), 'both secrets sign')

  await page.getByRole('button', { name: '停用', exact: true }).click()
  await page.getByRole('button', { name: '启用', exact: true }).waitFor()
  await page.getByRole('button', { name: '删除', exact: true }).click()
  await page.getByRole('button', { name: '删除 Webhook', exact: true }).click()
  await page.getByText('还没有 Webhook').waitFor()
  await viewer.finish()
})

test('the response 410 of a receiver turns its webhook off and adds an event', async () => {
  status = 410
  await server.api('POST', '/api/v1/webhooks', { url: address(), events: ['message.sent'] })
  await deliver()
  for (const [index, language] of languages.entries()) {
    const viewer = await openPage(browser, server, { language, dark: true, narrow: index === 0 })
    const { page } = viewer
    await viewer.signIn(admin, 'webhooks')
    const off = page.getByText(language === 'zh' ? '已自动停用' : 'Switched off by itself')
    for (const end = Date.now() + 30_000; (await off.count()) === 0 && Date.now() < end; ) await page.reload({ waitUntil: 'networkidle' })
    await off.waitFor()
    await viewer.checkAccess('webhook that is off')
    await viewer.screenshot('webhook-off', { fullPage: true })
    await page.getByRole('link', { name: address() }).click()
    await page.getByText(language === 'zh' ? '接收方回答了 410，不是 2xx' : 'The receiver answered 410, not 2xx').first().waitFor()
    await viewer.checkAccess('webhook')
    await viewer.screenshot('webhook-gone', { fullPage: true })
    await viewer.go('events')
    await page.getByText(language === 'zh' ? 'Webhook 已停用' : 'Webhook switched off').first().waitFor()
    await viewer.checkAccess('event of the webhook')
    await viewer.finish()
  }
})

test('the form offers each type of events that the webhook can get', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'hooked', name: 'Hooked' })
  const contract = await (await fetch(`${server.url}/openapi.yaml`)).text()
  const known = /^ +EventType:\n +type: string\n +enum: \[(.*)\]$/m.exec(contract)[1].split(', ')
  for (const language of languages) {
    const words = { zh: { add: '新增 Webhook', url: '地址', company: '公司', save: '保存', close: '已保存，关闭' }, en: { add: 'Add a webhook', url: 'URL', company: 'Company', save: 'Save', close: 'Stored: close' } }[language]
    const viewer = await openPage(browser, server, { language, narrow: language === 'zh', dark: language === 'en' })
    const { page } = viewer
    await viewer.signIn(admin, 'webhooks')
    await page.getByRole('button', { name: words.add }).first().click()
    const form = page.getByRole('dialog')
    const offered = () => form.locator('.el-checkbox code').allInnerTexts()
    assert.deepEqual((await offered()).sort(), [...known].sort())
    for (const type of ['message.received', 'sender.silent', 'alert.firing']) await form.getByText(type, { exact: true }).click()
    await form.getByLabel(words.url).fill(address())
    await viewer.checkAccess('types of events')
    await viewer.screenshot('webhook-events')
    await form.getByRole('combobox', { name: words.company }).fill('hooked')
    await page.keyboard.press('Enter')
    await form.getByText('sender.silent', { exact: true }).waitFor({ state: 'detached' })
    assert.deepEqual((await offered()).sort(), known.filter((type) => !/^(sender|alert)\./.test(type)).sort())
    await form.getByRole('button', { name: words.save }).click()
    await page.getByRole('button', { name: words.close }).click()
    const { items } = await server.api('GET', '/api/v1/webhooks')
    const added = items.find((one) => one.company_no === 'hooked')
    assert.deepEqual(added.events, ['message.sent', 'message.failed', 'message.received'])
    await server.api('DELETE', `/api/v1/webhooks/${added.webhook_id}`)
    await viewer.finish()
  }
})

test('a submitter adds its own webhook without choosing a company', async () => {
  const shop = { username: 'hook_shop', password: 'a-long-password-测试' }
  await server.api('POST', '/api/v1/admin/users', { ...shop, role: 'submit' })
  await server.api('POST', '/api/v1/webhooks', { url: 'https://other.example/', events: ['message.sent'] })
  const viewer = await openPage(browser, server, { language: 'en', narrow: true })
  const { page } = viewer
  await viewer.signIn(shop, 'webhooks')
  await page.getByText('No webhooks yet').waitFor()
  await page.getByRole('button', { name: 'Add a webhook' }).first().click()
  const form = page.getByRole('dialog')
  assert.equal(await form.getByLabel('Company').count(), 0)
  await form.getByLabel('URL').fill('https://shop.example/lksms')
  await viewer.checkAccess('form of a user')
  await viewer.screenshot('webhook-form')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('button', { name: 'Stored: close' }).click()
  await page.getByText('User hook_shop').waitFor()
  await viewer.finish()
})
