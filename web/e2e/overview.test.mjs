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

const words = {
  zh: { title: '总览', tasks: '任务', first: '从这里开始', waiting: '排队任务', waits: '正常', sender: '发送方状态', silent: '无响应', company: /公司 acme 此刻的情况/ },
  en: { title: 'Overview', tasks: 'Tasks', first: 'Start here', waiting: 'Tasks waiting', waits: 'Normal', sender: 'Senders', silent: 'Silent', company: /The company acme at this moment/ },
}

test('an empty installation shows the first steps', async () => {
  for (const language of languages) {
    for (const narrow of [false, true]) {
      const viewer = await openPage(browser, server, { language, narrow, dark: narrow })
      await viewer.signIn()
      await viewer.page.getByRole('heading', { level: 1, name: words[language].title }).waitFor() // the home page
      await viewer.page.getByRole('heading', { name: words[language].first }).waitFor()
      await viewer.checkAccess('first steps')
      await viewer.screenshot('first-steps', { fullPage: true })
      await viewer.finish()
    }
  }
})

test('the figures change without a reload when tasks and senders change', async () => {
  await server.api('POST', '/api/v1/admin/senders', { sender_no: 'phone_7', name: 'Front desk phone' })
  const viewers = []
  for (const language of languages) {
    const viewer = await openPage(browser, server, { language })
    await viewer.signIn()
    viewers.push(viewer)
  }
  await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138000', content: 'hello', source: 'test' })
  for (const { page, language } of viewers) {
    const word = words[language]
    const tile = (label) => page.locator('dl .tile').filter({ hasText: label })
    await tile(word.waiting).locator('.value', { hasText: /^1$/ }).waitFor()
    await page.locator('.tag', { hasText: word.waits }).waitFor()
    await page.getByRole('heading', { name: word.sender }).waitFor()
    const sender = page.getByRole('listitem').filter({ hasText: 'Front desk phone' })
    await sender.locator('.tag', { hasText: word.silent }).waitFor()
  }
  const { tasks } = await server.api('GET', '/api/v1/admin/overview')
  assert.equal(tasks.pending_new, 1)
  const claimed = await server.api('GET', '/api/v1/sms/tasks/pending?app_id=phone_7&limit=1')
  await server.api('POST', '/api/v1/sms/report', { task_id: claimed[0].task_id, app_id: 'phone_7', lease_id: claimed[0].lease_id, status: 2 })
  for (const { page, language } of viewers) {
    await page.locator('dl .tile').filter({ hasText: words[language].waiting }).locator('.value', { hasText: /^0$/ }).waitFor()
  }
  for (const viewer of viewers) {
    await viewer.page.reload()
    await viewer.page.locator('figure.chart canvas').first().waitFor()
    await viewer.checkAccess('overview')
    await viewer.screenshot('overview', { fullPage: true })
    await viewer.finish()
  }
})

test('a reader of a company sees the figures of this company', async () => {
  const reader = { username: 'acme-reader', password: 'reader-of-acme-password' }
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read', company_no: 'acme' })
  for (const language of languages) {
    const viewer = await openPage(browser, server, { language })
    await viewer.signIn(reader)
    await viewer.page.getByText(words[language].company).waitFor()
    await viewer.page.getByText(words[language].waiting).waitFor()
    await viewer.page.locator('dl .tile').filter({ hasText: words[language].waiting }).locator('.value', { hasText: /^0$/ }).waitFor()
    await viewer.checkAccess('overview of a company')
    await viewer.finish()
  }
})

test('a submitter starts on the tasks page, and has no link to the overview', async () => {
  const submitter = { username: 'acme-submitter', password: 'submitter-of-acme-password' }
  await server.api('POST', '/api/v1/admin/users', { ...submitter, role: 'submit', company_no: 'acme' })
  for (const language of languages) {
    const viewer = await openPage(browser, server, { language })
    await viewer.signIn(submitter)
    await viewer.page.getByRole('heading', { level: 1, name: words[language].tasks }).waitFor()
    assert.equal(await viewer.page.getByRole('link', { name: words[language].title }).count(), 0)
    await viewer.finish()
  }
})

test('the page polls if no event of the stream arrives', async () => {
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await page.clock.install()
  await page.route('**/api/v1/admin/stream', () => {}) // as a proxy that holds the events back
  await viewer.signIn(admin, 'overview')
  await page.clock.fastForward(21_000)
  await page.locator('.live.polling').waitFor()
  await page.getByText('Every 5 s').waitFor()
  await viewer.finish()
})

test('if the first read of the figures fails, the page shows the error and does not claim to be current', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^503 GET /] })
  const { page } = viewer
  const says = (event, data) => ({ status: 200, contentType: 'text/event-stream', body: `event: ${event}\ndata: ${JSON.stringify(data)}\n\n` })
  await page.route('**/api/v1/admin/stream', (route) => route.fulfill(says('ping', { current: false })))
  const failing = (route) => route.fulfill({ status: 503, contentType: 'application/json', body: JSON.stringify({ code: 503, message: 'The database does not answer.', error: { reason: 'service.unavailable' } }) })
  await page.route('**/api/v1/admin/overview', failing)
  await viewer.signIn(admin, 'overview')
  await page.getByRole('alert').getByText('The database does not answer.').waitFor()
  await page.getByText('Not current').waitFor()
  await viewer.checkAccess('overview without figures')
  await page.unroute('**/api/v1/admin/overview', failing)
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('alert').waitFor({ state: 'detached' })
  await viewer.finish()
})
