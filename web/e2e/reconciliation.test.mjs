import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
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

test('the messages of a sender on one day are compared with a total and a file, and readers see the totals of their company', async () => {
  const reader = { username: 'default-reader', password: 'a-password-of-a-reader' }
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read', company_no: 'default' })
  await server.api('POST', '/api/v1/sms/send-batch', { messages: ['13800138000', '13900139000'].map((phone_number) => ({ phone_number, content: '您的快递已到' })) })
  for (const task of await server.api('POST', '/api/v1/sms/tasks/claim', { app_id: 'phone_1', limit: 2, wait: 5 })) await server.api('POST', '/api/v1/sms/report', { task_id: task.task_id, app_id: 'phone_1', lease_id: task.lease_id, status: 2 })
  const day = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Asia/Shanghai' }).format(new Date())

  const viewer = await openPage(browser, server, { expected: [/^422 POST \S+\/reconciliations$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'reconciliations')
  await page.getByRole('button', { name: '新建对账' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByRole('button', { name: '开始比较' }).click()
  await form.getByText('请选择名单文件').waitFor()
  await form.getByRole('combobox', { name: '发送方' }).fill('phone_1')
  await page.getByRole('option', { name: 'phone_1' }).click()
  await form.getByRole('textbox', { name: '日期' }).fill(day)
  await form.getByText('只有总数').click()
  await form.getByLabel('服务商的总数').fill('3')
  await viewer.checkAccess('total of a provider')
  await form.getByRole('button', { name: '开始比较' }).click()
  await page.getByRole('heading', { name: `${day} phone_1` }).getByText('不一致').waitFor()
  await page.getByRole('link', { name: '对账' }).first().click()

  await page.getByRole('button', { name: '新建对账' }).first().click()
  await form.getByRole('combobox', { name: '发送方' }).fill('phone_1')
  await page.getByRole('option', { name: 'phone_1' }).click()
  await form.getByRole('textbox', { name: '日期' }).fill(day)
  await form.locator('input[type=file]').setInputFiles({ name: '账单.csv', mimeType: 'text/csv', buffer: Buffer.from('短信编号,状态,条数\nP-17,DELIVRD,1\n,DELIVRD,1\n') })
  await form.getByRole('combobox', { name: '计费条数列' }).click({ force: true })
  await page.getByRole('option', { name: '条数', exact: true }).click()
  await viewer.checkAccess('file of a provider')
  await viewer.screenshot('reconciliation-form')
  await form.getByRole('button', { name: '开始比较' }).click()
  await page.getByRole('heading', { name: `${day} phone_1` }).getByText('不一致').waitFor()
  await page.getByRole('link', { name: '查看差异：本系统没有 1' }).click()
  await page.getByRole('row').filter({ hasText: 'P-17' }).waitFor()
  await viewer.checkAccess('reconciliation')
  await viewer.screenshot('reconciliation', { fullPage: true })
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: '导出 CSV' }).click()])
  assert.match(readFileSync(await file.path(), 'utf8'), /P-17/)
  await page.getByRole('link', { name: '对账' }).first().click()
  await page.getByRole('row').filter({ hasText: '账单.csv' }).getByText('本系统没有 1').waitFor()
  await viewer.checkAccess('reconciliations')
  await viewer.screenshot('reconciliations')
  await viewer.finish()

  const other = await openPage(browser, server, { language: 'en', dark: true, narrow: true })
  await other.signIn(reader, 'daily-totals')
  await other.page.getByRole('row').filter({ hasText: 'phone_1' }).getByText('2', { exact: true }).first().waitFor()
  assert.equal(await other.page.getByRole('button', { name: 'Reconciliations' }).count(), 0)
  await other.checkAccess('daily totals')
  await other.screenshot('daily-totals', { fullPage: true })
  await other.finish()
})
