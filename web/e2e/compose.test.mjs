import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { admin, languages, openPage, startBrowser, startServer, waitForCount } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

const words = {
  zh: { numbers: '手机号', text: '正文', wait: '会等待', send: '发送', sent: '已提交 1 条短信', phone: '用模拟手机领取', on: '开始领取', confirm: '开始领取', success: '成功', reported: '已上报：成功', task: '查看任务', state: '成功', full: '正在领取' },
  en: { numbers: 'Phone numbers', text: 'Text', wait: 'Would wait', send: 'Send', sent: '1 message submitted', phone: 'Claim with the simulated phone', on: 'Start claiming', confirm: 'Start claiming', success: 'Success', reported: 'Reported: success', task: 'Show the task', state: 'Success', full: 'Claiming' },
}

for (const language of languages) {
  test(`a message goes from the form to the simulated phone to SUCCESS (${language})`, async () => {
    const word = words[language]
    const viewer = await openPage(browser, server, { language })
    const { page } = viewer
    await viewer.signIn(admin, 'compose')
    await viewer.checkAccess('empty form')
    await page.getByLabel(word.numbers).fill(language === 'zh' ? '13800138000' : '+44 7911 123456')
    await page.getByLabel(word.text, { exact: true }).fill('Hello 你好')
    if (language === 'zh') await page.getByText(new RegExp(`${word.wait}$`)).last().waitFor() // no sender exists
    await viewer.checkAccess('dry run')
    await viewer.screenshot('compose')
    await page.getByRole('button', { name: word.send, exact: true }).click()
    await page.getByText(word.sent).waitFor()
    await viewer.checkAccess('sent message')
    await page.getByRole('link', { name: word.phone }).click()

    await viewer.checkAccess('phone that is off')
    await page.getByRole('button', { name: word.on }).click()
    await page.getByRole('dialog').getByRole('button', { name: word.confirm }).click() // one task waits
    await page.getByText('Hello 你好').waitFor()
    await viewer.checkAccess('phone with a message')
    await viewer.screenshot('phone')
    await page.getByRole('button', { name: word.success, exact: true }).click()
    await page.getByText(word.reported).waitFor()
    await page.getByRole('link', { name: word.task }).click()
    await page.getByRole('heading', { level: 1 }).getByText(word.state).waitFor()
    await viewer.finish()
  })
}

test('the form has a field for each parameter of a template, and submits several numbers together', async () => {
  const { id } = await server.api('POST', '/api/v1/admin/template', { template_name: 'code', template_content: 'Your code is {code}, {name}' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'compose')
  await page.getByLabel('Phone numbers').fill('13800138000, 13800138001\n13800138000')
  await page.getByText('2 numbers', { exact: true }).waitFor()
  await page.getByText('A template', { exact: true }).click()
  await page.getByText('Your code is {code}, {name}').first().waitFor()
  await page.getByLabel('code', { exact: true }).fill('12&34')
  await page.getByLabel('name', { exact: true }).fill('Ann + Bob = 100%')
  await page.getByText('Your code is 12&34, Ann + Bob = 100%').waitFor()
  await page.getByText('(about 2 for all)').first().waitFor()
  await viewer.checkAccess('template form')
  await page.getByRole('button', { name: 'Send to 2 numbers' }).click()
  await page.getByText('2 messages submitted').waitFor()
  await page.getByRole('link', { name: 'Show in the list of tasks' }).click()
  await waitForCount(page.getByRole('link', { name: 'Your code is 12&34' }), 2)
  await viewer.finish()
  await server.api('PATCH', `/api/v1/admin/template/${id}`, { companies: ['default'] })
})

test('a user of a company sees only the templates of the company, and errors appear at the fields', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  await server.api('POST', '/api/v1/admin/template', { template_no: 'sum', template_name: 'acme', template_content: '{姓名} owes {sum}', companies: ['acme'] })
  await server.api('POST', '/api/v1/admin/template', { template_no: 'due', template_name: 'reminder', template_content: 'Dear {name}, remember', sign: 'ACME', language: 'en', translations: { fr: 'Cher {name}' }, companies: ['acme', 'default'] })
  await server.api('POST', '/api/v1/admin/template', { template_no: 'secret', template_name: 'secret', template_content: 'x', companies: ['default'], is_active: false })
  const user = { username: 'acme-app', password: 'password-of-acme-app' }
  await server.api('POST', '/api/v1/admin/users', { ...user, role: 'submit', company_no: 'acme' })
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^422 POST \S+\/api\/v1\/sms\/send/] })
  const { page } = viewer
  await viewer.signIn(user, 'compose')
  await page.getByLabel('Phone numbers').fill('13800138000')
  await page.getByText('A template', { exact: true }).click()
  await page.getByLabel('姓名').fill('Ann')
  await page.getByLabel('sum').fill('5')
  await page.getByText('Ann owes 5', { exact: true }).waitFor()
  await page.getByRole('combobox', { name: 'Template' }).click()
  assert.deepEqual(await page.getByRole('option').allTextContents(), ['The first one that is enabled: acme', 'sum · acme', 'due · reminder'])
  await page.getByRole('option', { name: 'due' }).click()
  await page.getByLabel('name', { exact: true }).fill('Bob')
  await page.getByText('【ACME】Dear Bob, remember').waitFor()
  await page.getByRole('combobox', { name: 'Language' }).click({ force: true })
  await page.getByRole('option', { name: 'fr' }).click()
  await page.getByText('【ACME】Cher Bob').waitFor()
  await viewer.checkAccess('chosen template')
  await viewer.screenshot('compose-template')
  await page.getByLabel('Phone numbers').fill('12345678901')
  await page.locator('.el-form-item.is-error').getByText('its country is not known').waitFor()
  await page.getByText('would be rejected').waitFor()
  await viewer.checkAccess('rejected message')
  await page.getByLabel('Phone numbers').fill('call me')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await page.getByText('These are no phone numbers: call me').waitFor()
  await viewer.finish()
})
