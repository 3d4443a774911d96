import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { admin, languages, openPage, startBrowser, startServer } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

test('a phone is added as a sender with limits, paired by a QR code, paused and resumed', async () => {
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

  await row.getByRole('link', { name: '前台手机' }).click()
  await page.getByRole('button', { name: '配对 SMSGate 手机' }).click()
  const smsgate = page.getByRole('dialog', { name: /SMSGate/ })
  await smsgate.getByRole('button', { name: '生成注册码' }).click()
  await smsgate.getByRole('img', { name: '含地址和注册码的二维码' }).waitFor()
  await viewer.checkAccess('pairing of SMSGate')
  const [url, code] = await smsgate.locator('dd').allTextContents()
  assert.match(url, /^https:\/\/.+\/smsgate\/mobile\/v1$/)
  assert.match(code, /^\d{12}$/)
  await smsgate.getByRole('button', { name: '关闭' }).last().click()
  assert.equal(await page.getByText(code).count(), 0, 'the code is shown once')
  await viewer.finish()
})

for (const language of languages) {
  test(`the page of a sender sets and shows who adds the signature (${language})`, async () => {
    const words = {
      zh: { edit: '编辑', save: '保存', field: '签名由谁加', sign: '签名', provider: '服务商', nobody: '不加：不允许签名', added: '由服务商加上【公司】。' },
      en: { edit: 'Edit', save: 'Save', field: 'Who signs', sign: 'Signature', provider: 'The provider', nobody: 'Nobody: no signatures', added: 'The provider adds 【公司】.' },
    }[language]
    const sender_no = `signs-${language}`
    await server.api('POST', '/api/v1/admin/senders', { sender_no, name: sender_no })
    const viewer = await openPage(browser, server, { language })
    const { page } = viewer
    const form = page.getByRole('dialog')
    const choose = async (mode) => {
      await page.getByRole('button', { name: words.edit, exact: true }).click()
      await form.getByLabel(words.field).click({ force: true })
      await page.getByRole('option', { name: mode, exact: true }).click()
    }
    await viewer.signIn(admin, `senders/${sender_no}`)
    await choose(words.provider)
    await form.getByLabel(words.sign, { exact: true }).fill('公司')
    await viewer.checkAccess('form of a sender whose provider signs')
    await form.getByRole('button', { name: words.save }).click()
    await page.getByRole('definition').filter({ hasText: '【公司】' }).waitFor()
    assert.equal((await server.api('GET', `/api/v1/admin/senders/${sender_no}`)).sign_mode, 'by_provider')
    const { task_id } = await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138000', content: 'x' })
    await server.api('POST', '/api/v1/sms/tasks/claim', { app_id: sender_no, limit: 1 })
    await viewer.go(`tasks/${task_id}`)
    await page.getByText(words.added).waitFor()

    await viewer.go(`senders/${sender_no}`)
    await choose(words.nobody)
    await form.getByLabel(words.sign, { exact: true }).waitFor({ state: 'detached' })
    await form.getByRole('button', { name: words.save }).click()
    await page.getByRole('definition').filter({ hasText: words.nobody }).waitFor()
    const { sign, sign_mode } = await server.api('GET', `/api/v1/admin/senders/${sender_no}`)
    assert.deepEqual([sign, sign_mode], [null, 'none'])
    await server.api('PATCH', `/api/v1/admin/senders/${sender_no}`, { status: 'off' })
    await viewer.finish()
  })
}

for (const language of languages) {
  test(`the page of a sender sets and shows its sending hours and the limits of its SIMs (${language})`, async () => {
    const words = {
      zh: { edit: '编辑', save: '保存', hours: '可发时段', sims: '修改 SIM 卡', add: '添加 SIM 卡', none: '没有 SIM 卡：每条短信的卡由 APP 选择。', number: '号码', day: '每日计费条数', through: '通过此卡发送短信', remove: '删除 SIM 卡 1', usedUp: '已用完', noSim: '发送间隔未到，或 SIM 卡都已停用或用完限额。' },
      en: { edit: 'Edit', save: 'Save', hours: 'Hours', sims: 'Edit the SIMs', add: 'Add a SIM', none: 'No SIMs. The app chooses the SIM of each message.', number: 'Phone number', day: 'Segments per day', through: 'Send messages through this SIM', remove: 'Remove SIM 1', usedUp: 'Used up', noSim: 'Its interval has not passed, or each of its SIMs is off or used up.' },
    }[language]
    const sender_no = `sims-${language}`
    const read = () => server.api('GET', `/api/v1/admin/senders/${sender_no}`)
    await server.api('POST', '/api/v1/admin/senders', { sender_no, name: sender_no })
    const viewer = await openPage(browser, server, { language, expected: [/^422 PATCH \S+\/senders\/sims-\w+$/] })
    const { page } = viewer
    const form = page.getByRole('dialog')
    const save = async () => {
      await form.getByRole('button', { name: words.save }).click()
      await form.waitFor({ state: 'hidden' })
    }
    await viewer.signIn(admin, `senders/${sender_no}`)
    await page.getByText(words.none).waitFor()

    await page.getByRole('button', { name: words.edit, exact: true }).click()
    const hours = form.getByLabel(words.hours, { exact: true })
    await hours.fill('22:00-22:00')
    await form.getByRole('button', { name: words.save }).click()
    await form.locator('.el-form-item.is-error').filter({ has: page.getByLabel(words.hours, { exact: true }) }).waitFor()
    await hours.fill('00:01-00:00')
    await viewer.checkAccess('form of a sender with hours')
    await viewer.screenshot('sender-hours')
    await save()
    await page.getByRole('definition').filter({ hasText: '00:01-00:00' }).waitFor()
    await page.getByRole('button', { name: words.edit, exact: true }).click()
    await hours.fill('')
    await save()
    assert.equal((await read()).hours, null)

    await page.getByRole('button', { name: words.sims }).click()
    await form.getByRole('button', { name: words.add }).click()
    await form.getByRole('button', { name: words.add }).click()
    const sim = (n) => form.locator('fieldset').nth(n - 1)
    await sim(1).getByLabel(words.day).fill('1')
    await sim(2).getByText(words.through).click()
    await sim(1).getByLabel(words.number).fill('+8613900000001')
    await viewer.checkAccess('form of SIMs')
    await viewer.screenshot('sims-form')
    await save()
    const row = (n) => page.getByRole('table', { name: /SIM/ }).getByRole('row').nth(n)
    await row(1).getByText('0 / 1').waitFor()
    await row(2).locator('.tag.idle').waitFor()

    await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138000', content: 'x' })
    const [task] = await server.api('POST', '/api/v1/sms/tasks/claim', { app_id: sender_no, limit: 5 })
    assert.equal(task.sim, 1)
    await page.reload()
    await row(1).getByText('1 / 1').waitFor()
    await row(1).getByText(words.usedUp).waitFor()
    await page.getByText(words.noSim).waitFor() // why the sender is not ready
    await viewer.checkAccess('SIMs of a sender')
    await viewer.screenshot('sims')

    await page.getByRole('button', { name: words.sims }).click()
    await form.getByRole('button', { name: words.remove }).click()
    await save()
    assert.deepEqual((await server.api('GET', `/api/v1/admin/senders/${sender_no}/sims`)).map((one) => [one.slot, one.is_on]), [[2, false]])
    await server.api('PATCH', `/api/v1/admin/senders/${sender_no}`, { status: 'off' })
    await viewer.finish()
  })
}

test('the secrets of a provider are not shown, its balance is topped up, and a test message shows its response', async () => {
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
  await form.getByLabel('Field that shows success').fill('status')
  await form.getByLabel('Price of a segment').fill('0.045')
  await viewer.checkAccess('form of a provider')
  await viewer.screenshot('provider-form')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('link', { name: 'Provider', exact: true }).click()

  await page.getByRole('heading', { level: 1, name: 'Provider' }).waitFor()
  await page.getByRole('button', { name: 'Edit', exact: true }).click()
  await form.getByRole('button', { name: 'Replace “Secrets”' }).waitFor()
  assert.equal(await form.getByLabel('Price of a segment').inputValue(), '0.0450')
  assert.equal((await server.api('GET', '/api/v1/admin/senders/provider')).segment_price, 450)
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
  await viewer.checkAccess('test message')
  await viewer.screenshot('sender-test')
  await form.getByRole('button', { name: 'Send the test message' }).click()
  // The address does not exist: 404 is the trouble of the sender. It was tested while it is paused.
  const outcome = page.getByRole('dialog', { name: 'Outcome of the test' })
  await outcome.getByText('The sender cannot send').waitFor()
  assert.match((await outcome.locator('pre').allTextContents()).join('\n'), /404[\s\S]*POST [\s\S]*"key":"\*\*\*"/)
  await viewer.checkAccess('outcome of a test')
  await outcome.getByRole('button', { name: /close/i }).click()
  await server.api('PATCH', '/api/v1/admin/senders/provider', { status: 'on', is_shared: true })
  await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138000', content: 'x' })
  await page.getByText(/(Open: nothing is sent|Half open: one message is tried)$/).waitFor()
  await page.getByText('The circuit breaker opened').waitFor()
  await viewer.checkAccess('sender in trouble')
  await viewer.screenshot('sender', { fullPage: true })

  await page.getByRole('button', { name: 'Edit', exact: true }).click()
  await form.getByRole('button', { name: 'Replace “Secrets”' }).click()
  await form.getByRole('button', { name: 'Save' }).click()
  await form.getByText('Type the new value, or keep the stored one.').waitFor() // nothing is no replacement
  await form.getByRole('button', { name: 'Keep', exact: false }).first().click()
  await form.getByRole('button', { name: 'Remove “Secrets”' }).click()
  await form.getByText('Removed when you save').waitFor()
  await viewer.checkAccess('removed secret')
  await form.getByLabel('Body (JSON)').fill('{"to": "${digits}", "text": "${content}"}')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.waitFor({ state: 'detached' })
  assert.equal((await server.api('GET', '/api/v1/admin/senders/provider')).config.secrets, undefined)
  await viewer.finish()
})

test('a receipt that matches no message is shown with its original body and the values read from it', async () => {
  const secret = 'a-secret-of-16-bytes'
  await server.api('POST', '/api/v1/admin/senders', {
    sender_no: 'receipts',
    name: 'receipts',
    kind: 'http-sms',
    status: 'off',
    config: {
      url: 'http://127.0.0.1:9/',
      body: { to: '${recipient}', text: '${content}' },
      answer: { success: 'code', equals: ['0'], number: 'id' },
      callback: { verify: 'token', number: 'msgid', recipient: 'mobile', state: 'status', delivered: ['DELIVRD'], code: 'err', answer: { body: 'ok' } },
      callbackSecret: secret,
    },
  })
  const answer = await fetch(`${server.url}/api/v1/callbacks/receipts?token=${secret}`, { method: 'POST', body: '{"msgid":"stray-1","status":"UNDELIV","err":"MK:0001"}' })
  assert.equal(answer.status, 200)
  const viewer = await openPage(browser, server, { language: 'zh' })
  const { page } = viewer
  await viewer.signIn(admin, 'senders/receipts')
  await page.getByText('找不到，仍在查找').waitFor()
  await page.getByRole('cell', { name: 'stray-1', exact: true }).waitFor()
  await viewer.checkAccess('receipts')
  await page.getByRole('row').filter({ hasText: '已读取' }).getByRole('button').click()
  const drawer = page.getByRole('dialog', { name: '回调' })
  await drawer.getByText('"err":"MK:0001"').waitFor()
  await drawer.getByText('按现在的配置读出').waitFor()
  await drawer.getByText('未送达 MK:0001').waitFor()
  await viewer.checkAccess('a callback')
  await viewer.finish()
})

test('a reader of one company sees no buttons that change a sender', async () => {
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
