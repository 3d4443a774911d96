import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { checkNoFigures, checkReaderOfCompany, languages, openPage, startBrowser, startServer } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

const words = {
  zh: { none: '这段时间没有任务', by: '分组', type: '短信类型', notification: '通知', total: '合计', csv: '导出 CSV', submitted: '提交', back: '返回全部短信类型', table: '表格', time: '按时间统计', company: '公司' },
  en: { none: 'No tasks in this range', by: 'By', type: 'Message type', notification: 'Notification', total: 'Total', csv: 'Export CSV', submitted: 'Submitted', back: 'Back to every Message type', table: 'Table', time: 'Over time', company: 'Company' },
}

test('the page says that no tasks exist', () => checkNoFigures(browser, server, 'statistics', words))

test('tasks are counted by message type and downloaded as CSV', async () => {
  for (const message_type of ['notification', 'notification', 'marketing']) await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138000', content: 'hello', source: 'test', message_type })
  for (const language of languages) {
    for (const narrow of [false, true]) {
      const word = words[language]
      const viewer = await openPage(browser, server, { language, narrow, dark: narrow })
      const { page } = viewer
      await viewer.signIn(undefined, 'statistics')
      await page.locator('figure.chart canvas').first().waitFor()
      await page.locator('dl .tile').filter({ hasText: word.submitted }).locator('.value', { hasText: /^3$/ }).waitFor()
      await viewer.checkAccess('statistics')
      await viewer.screenshot('statistics', { fullPage: true })

      await page.getByLabel(word.by, { exact: true }).click({ force: true })
      await page.getByRole('option', { name: word.type, exact: true }).click()
      await page.getByRole('cell', { name: word.total }).waitFor()
      assert.equal(new URL(page.url()).searchParams.get('by'), 'message_type', 'what is asked for lives in the address')
      await page.getByRole('row').filter({ hasText: word.notification }).locator('td', { hasText: /^2$/ }).first().waitFor()
      await viewer.checkAccess('statistics by type')
      await viewer.screenshot('statistics-by-type', { fullPage: true })

      const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: word.csv }).click()])
      assert.match(file.suggestedFilename(), /^lksms-statistics-hour-\d{4}-\d{2}-\d{2}\.csv$/)
      const lines = (await readFile(await file.path(), 'utf8')).trim().split('\r\n')
      assert.equal(lines.length, 3, 'a head and a row for each type')
      assert.ok(lines.some((line) => /^\d{4}-\d{2}-\d{2} \d{2}:00:00,notification,2,/.test(line)), lines.join('\n'))

      await page.getByRole('row').filter({ hasText: word.notification }).getByRole('button').click()
      await page.getByRole('heading', { name: new RegExp(word.notification) }).waitFor()
      await page.locator('dl .tile').filter({ hasText: word.submitted }).locator('.value', { hasText: /^2$/ }).waitFor()
      await page.getByRole('button', { name: word.back }).click()
      await page.getByRole('cell', { name: word.total }).waitFor()
      await viewer.finish()
    }
  }
})

test('a range that is too long for its step shows the error of the server', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^422 GET \S+\/api\/v1\/admin\/statistics/] })
  await viewer.signIn(undefined, 'statistics?range=30d&step=minute')
  await viewer.page.getByRole('alert').waitFor()
  await viewer.checkAccess('refused statistics')
  await viewer.finish()
})

test('a reader of a company cannot choose a company', () => checkReaderOfCompany(browser, server, 'statistics', words))
