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

const send = (phone_number, content, more = {}) => server.api('POST', '/api/v1/sms/send', { phone_number, content, ...more })

test('the simulated phone claims only messages of the test route, and reports failures, retries and success', async () => {
  const viewer = await openPage(browser, server, { language: 'zh' })
  const { page } = viewer
  await viewer.signIn(admin, 'phone')
  await page.getByText('此页会真正从队列中取走短信').waitFor()
  await page.getByRole('button', { name: '建立测试路由' }).click()
  await viewer.checkAccess('test route form')
  await page.getByRole('dialog').getByRole('button', { name: '建立', exact: true }).click()
  await page.getByText('测试发送方 test-phone 已就绪').waitFor()
  await page.getByRole('button', { name: '开始领取' }).click()
  await page.getByText('等待短信…').waitFor()

  const other = await send('13800138001', '正式短信')
  const retried = await send('13800138002', '会重试的短信', { message_type: 'marketing' })
  await page.getByText('会重试的短信').waitFor() // the claim waits for it
  const failed = await send('13800138003', '会失败的短信', { message_type: 'marketing' })
  await page.getByText('会失败的短信').waitFor()
  await page.getByLabel('多少秒后重试').fill('0')
  await page.getByLabel('失败原因').fill('占线')
  await viewer.checkAccess('phone with messages')
  await viewer.screenshot('phone-messages')
  const on = (text) => page.getByRole('listitem').filter({ hasText: text })
  await on('会失败的短信').getByRole('button', { name: '失败', exact: true }).click()
  await on('会失败的短信').getByText(/已上报：失败$/).waitFor()
  await on('会重试的短信').getByRole('button', { name: '失败并重试' }).click()
  await on('会重试的短信').getByText('第 2 次尝试').waitFor()

  await page.reload() // the message is not lost
  await page.getByRole('button', { name: '开始领取' }).click()
  await page.getByRole('dialog').getByRole('button', { name: '开始领取' }).click() // the other message still waits
  await on('会重试的短信').getByRole('button', { name: '成功', exact: true }).click()
  await on('会重试的短信').getByText('已上报：成功').waitFor()
  const status = async ({ task_id }) => (await server.api('GET', `/api/v1/sms/task/${task_id}`)).status
  assert.deepEqual([await status(other), await status(retried), await status(failed)], [0, 2, 3])
  await page.getByRole('button', { name: '停止领取' }).click()
  await page.getByText('未开始').first().waitFor()
  await server.api('POST', `/api/v1/sms/task/${other.task_id}/cancel`) // nothing waits for the next tests
  await viewer.finish()
})

for (const [language, number, button, conversations] of [
  ['zh', '13800138011', '回复', '在会话中查看'],
  ['en', '13800138012', 'Reply', 'Show in the conversations'],
]) {
  test(`a reply that is written on the simulated phone is received, in ${language}`, async () => {
    const app = `answers-${language}`
    await server.api('POST', '/api/v1/sms/send', { phone_number: number, content: `Question ${language}` })
    const viewer = await openPage(browser, server, { language, narrow: language === 'en' })
    const { page } = viewer
    await page.addInitScript((no) => localStorage.setItem('lksms.phone', no), app)
    await viewer.signIn(admin, 'phone')
    await page.getByRole('button', { name: /^(开始领取|Start claiming)$/ }).click()
    await page.getByRole('dialog').getByRole('button', { name: /^(开始领取|Start claiming)$/ }).click()
    const message = page.getByRole('listitem').filter({ hasText: `Question ${language}` })
    await message.getByRole('textbox').fill('Answer on the phone')
    await viewer.checkAccess('a phone with an answer')
    await message.getByRole('textbox').press('Enter')
    await message.locator('.sent').getByText('Answer on the phone').waitFor()
    await message.getByRole('textbox').fill('Second answer')
    await page.route('**/api/v1/sms/received', async (route) => {
      await message.getByRole('textbox').fill('Typed meanwhile')
      await route.continue()
    })
    await message.getByRole('button', { name: button, exact: true }).click()
    await message.locator('.sent').getByText('Second answer').waitFor()
    assert.equal(await message.getByRole('textbox').inputValue(), 'Typed meanwhile')
    await page.unroute('**/api/v1/sms/received')
    for (const n of [1, 2]) {
      await message.getByRole('textbox').fill('Again')
      await message.getByRole('textbox').press('Enter')
      await message.locator('.sent').getByText('Again').nth(n - 1).waitFor()
    }
    await viewer.checkAccess('an answered message')
    await viewer.screenshot('phone-reply')
    const { items } = await server.api('GET', `/api/v1/received?sender_no=${app}`)
    assert.deepEqual(items.map((one) => [one.phone_number, one.content, one.in_reply_to !== null]), [
      [`+86${number}`, 'Again', true],
      [`+86${number}`, 'Again', true], // also within a second
      [`+86${number}`, 'Second answer', true],
      [`+86${number}`, 'Answer on the phone', true],
    ])
    await message.getByRole('button', { name: /^(成功|Success)$/ }).click()
    await page.getByRole('button', { name: /^(停止领取|Stop claiming)$/ }).click()
    await message.getByRole('link', { name: conversations }).click()
    await page.locator('[data-conversation]').filter({ hasText: 'Again' }).filter({ hasText: number.slice(-4) }).waitFor()
    await viewer.finish()
  })
}

test('the simulated phone cannot claim as a driven sender', async () => {
  await server.api('POST', '/api/v1/admin/senders', { sender_no: 'driven', name: 'Driven', kind: 'log', status: 'on', is_shared: false })
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^409 POST \S+\/api\/v1\/sms\/tasks\/claim$/] })
  const { page } = viewer
  await page.addInitScript(() => localStorage.setItem('lksms.phone', 'driven'))
  await viewer.signIn(admin, 'phone')
  await page.getByRole('button', { name: 'Start claiming' }).click()
  await page.getByRole('alert').getByText('apps must use another app_id').waitFor()
  await page.getByRole('button', { name: 'Start claiming' }).waitFor()
  await viewer.finish()
})

test('a user of an app sees only the simulated phone, and claims as its app', async () => {
  const user = { username: 'app-nine', password: 'password-of-app-nine' }
  await server.api('POST', '/api/v1/admin/users', { ...user, role: 'send', app_id: 'app-nine' })
  const viewer = await openPage(browser, server, { language: 'en', narrow: true })
  const { page } = viewer
  await viewer.signIn(user)
  await page.getByRole('heading', { level: 1, name: 'Simulated phone' }).waitFor()
  await page.locator('#main').getByText('app-nine', { exact: true }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Write a message' }).count(), 0)
  await page.getByRole('button', { name: 'Start claiming' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Start claiming' }).click() // it may not know whether tasks wait
  const { task_id } = await send('13800138009', 'For app nine')
  await page.getByText('For app nine').waitFor()
  await viewer.checkAccess('phone of an app')
  await page.getByRole('button', { name: 'Success', exact: true }).last().click()
  await page.getByText('Reported: success').first().waitFor()
  assert.equal(await page.getByRole('link', { name: 'Show the task' }).count(), 0)
  await viewer.finish()
  assert.ok(task_id)
})

test('the pairing of an SMSGate phone shows the settings of its sender, and can set the recommended values', async () => {
  await server.api('POST', '/api/v1/admin/senders', { sender_no: 'smsgate', name: 'SMSGate', interval_ms: 5000, is_shared: false })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'senders/smsgate')
  await page.getByRole('button', { name: 'Pair an SMSGate phone' }).click()
  const dialog = page.getByRole('dialog', { name: /SMSGate/ })
  await dialog.getByText('Send again after the lease', { exact: true }).waitFor()
  await dialog.getByText('5,000 milliseconds', { exact: true }).waitFor()
  await viewer.checkAccess('pairing of SMSGate with a warning')
  await dialog.getByRole('button', { name: 'Use the values recommended for phones' }).click()
  await dialog.getByText('Count as failed', { exact: true }).waitFor()
  await dialog.getByText('3,600 seconds', { exact: true }).waitFor()
  assert.equal(await dialog.getByRole('button', { name: 'Use the values recommended for phones' }).count(), 0)
  const { on_unclear, interval_ms, lease_seconds } = await server.api('GET', '/api/v1/admin/senders/smsgate')
  assert.deepEqual({ on_unclear, interval_ms, lease_seconds }, { on_unclear: 'fail', interval_ms: 5000, lease_seconds: 3600 })
  await dialog.getByRole('button', { name: 'Open a code' }).click()
  await dialog.getByRole('img', { name: 'QR code with address and code' }).waitFor()
  await viewer.finish()
})
