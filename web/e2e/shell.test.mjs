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
  zh: { templates: '模板', companies: '公司', signOut: '退出登录', everywhere: '退出所有设备', other: 'English', button: '登录' },
  en: { templates: 'Templates', companies: 'Companies', signOut: 'Sign out', everywhere: 'Sign out everywhere', other: '中文', button: 'Sign in' },
}

for (const language of languages) {
  for (const dark of [false, true]) {
    for (const narrow of [false, true]) {
      test(`a user signs in, opens pages and signs out (${language}, ${dark ? 'dark' : 'light'}, ${narrow ? 'phone' : 'desk'})`, async () => {
        const word = words[language]
        const viewer = await openPage(browser, server, { language, dark, narrow })
        const { page } = viewer
        await viewer.go('companies')
        await page.getByRole('button', { name: word.button }).waitFor()
        await viewer.checkAccess('sign-in')
        await viewer.screenshot('sign-in')
        await viewer.signIn(admin, 'companies')
        assert.equal(new URL(page.url()).pathname, '/console/companies', 'signing in leads back')
        assert.equal(await page.getByRole('heading', { level: 1 }).textContent().then((text) => text.trim()), word.companies)
        await viewer.checkAccess('companies')
        if (narrow) {
          await page.locator('header.top button').first().click()
          await page.getByRole('dialog').getByRole('link', { name: word.templates, exact: true }).waitFor()
          await viewer.checkAccess('navigation')
          await viewer.screenshot('navigation')
          await page.getByRole('dialog').getByRole('link', { name: word.templates, exact: true }).click()
        } else {
          await page.getByRole('link', { name: word.templates, exact: true }).click()
        }
        await page.getByRole('heading', { level: 1, name: word.templates }).waitFor()
        await viewer.screenshot('templates')

        await page.reload()
        await page.getByRole('heading', { level: 1, name: word.templates }).waitFor() // the session is restored

        await page.locator('header.top').getByRole('button', { name: admin.username }).click()
        await page.getByRole('menuitem', { name: word.signOut, exact: true }).click()
        await page.getByRole('button', { name: word.button }).waitFor()
        await viewer.go('companies')
        await page.getByRole('button', { name: word.button }).waitFor()
        await viewer.finish()
      })
    }
  }
}

test('the console uses the language that the browser prefers', async () => {
  for (const [preferred, heading] of [
    [['en-GB', 'zh-CN'], 'Sign in'],
    [['fr-FR', 'zh-TW', 'en-GB'], '登录'],
    [['fr-FR'], 'Sign in'],
  ]) {
    const viewer = await openPage(browser, server)
    await viewer.page.addInitScript((all) => Object.defineProperty(navigator, 'languages', { get: () => all }), preferred)
    await viewer.go('')
    await viewer.page.getByRole('button', { name: heading }).waitFor()
    await viewer.finish()
  }
})

test('the language and the appearance stay after a reload', async () => {
  const viewer = await openPage(browser, server, { language: 'zh' })
  const { page } = viewer
  await viewer.signIn(admin, 'companies')
  await page.getByRole('button', { name: words.zh.other }).click()
  await page.getByRole('heading', { level: 1, name: words.en.companies }).waitFor()
  await page.getByRole('button', { name: /^Appearance/ }).click()
  await page.getByRole('menuitem', { name: 'Dark' }).click()
  await page.reload()
  await page.getByRole('heading', { level: 1, name: words.en.companies }).waitFor()
  assert.equal(await page.locator('html.dark').count(), 1)
  assert.equal(await page.locator('html').getAttribute('lang'), 'en')
  await viewer.finish()
})

test('the error of a wrong password is shown in the language of the console', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^401 POST \S+\/api\/v1\/session$/] })
  const { page } = viewer
  await viewer.go('')
  await page.locator('input[name=username]').fill('admin')
  await page.locator('input[name=password]').fill('wrong')
  await page.keyboard.press('Enter')
  assert.match(await page.getByRole('alert').textContent(), /credentials|password/i)
  await viewer.checkAccess('refused sign-in')
  await viewer.finish()
})

test('signing out everywhere ends the other sessions', async () => {
  const one = await openPage(browser, server, { language: 'en' })
  const other = await openPage(browser, server, { language: 'en', expected: [/^401 /] })
  await one.signIn(admin, 'companies')
  await other.signIn(admin, 'companies')
  await one.page.locator('header.top').getByRole('button', { name: admin.username }).click()
  await one.page.getByRole('menuitem', { name: words.en.everywhere, exact: true }).click()
  await one.page.getByRole('dialog').getByRole('button', { name: words.en.everywhere }).click()
  await one.page.getByRole('button', { name: words.en.button }).waitFor()
  const again = other.page.getByRole('dialog', { name: 'Sign in again' })
  const link = other.page.getByRole('link', { name: words.en.templates, exact: true })
  await Promise.any([again.waitFor(), link.click().then(() => again.waitFor())]) // an open page also asks by itself
  await one.finish()
  await other.finish()
})

test('a reader sees only the buttons and pages that its role allows', async () => {
  const reader = { username: 'reader', password: 'reader-of-acme-password' }
  const companies = await server.api('GET', '/api/v1/admin/companies')
  if (!companies.items.some((one) => one.company_no === 'acme')) await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read', company_no: 'acme' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(reader, 'companies')
  await page.getByRole('cell', { name: 'acme', exact: true }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add a company' }).count(), 0)
  await page.getByRole('link', { name: words.en.templates, exact: true }).click()
  await page.getByRole('heading', { level: 1, name: words.en.templates }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add a template' }).count(), 0)
  assert.equal(await page.getByRole('link', { name: 'Default contents', exact: true }).count(), 0)
  await viewer.go('default-contents')
  await page.getByText('you may not open it').waitFor()
  await viewer.finish()
})

test('a form keeps its input when the session ends, and asks before it is left', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^401 /] })
  const { page, context } = viewer
  await viewer.signIn(admin, 'templates')
  await page.getByRole('link', { name: words.en.companies, exact: true }).click()
  await page.getByRole('button', { name: 'Add a company' }).first().click()
  const form = page.getByRole('dialog', { name: 'Add a company' })
  await form.getByLabel('Company number').fill('kept')
  await form.getByLabel('Name').fill('Kept Ltd.')
  await page.goBack()
  const question = page.getByRole('dialog', { name: 'Some changes are not saved' })
  await question.waitFor()
  await question.locator('button').filter({ hasNotText: 'Discard changes' }).last().click()
  await question.waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).pathname, '/console/companies')

  await context.clearCookies()
  await form.getByRole('button', { name: 'Save' }).click()
  const again = page.getByRole('dialog', { name: 'Sign in again' })
  await again.waitFor()
  await viewer.checkAccess('sign in again')
  await viewer.screenshot('sign-in-again')
  assert.equal(await again.getByLabel('User name').inputValue(), admin.username)
  await again.getByLabel('Password').fill('wrong')
  await page.keyboard.press('Enter')
  await again.getByRole('alert').waitFor()
  await again.getByLabel('Password').fill(admin.password)
  await page.keyboard.press('Enter')
  await again.waitFor({ state: 'detached' })
  assert.equal(await form.getByLabel('Name').inputValue(), 'Kept Ltd.')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('cell', { name: 'kept', exact: true }).waitFor()
  await viewer.finish()
})

test('a tab changes its user when another user signs in in another tab', async () => {
  const reader = { username: 'second', password: 'password-of-the-second' }
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page, context } = viewer
  await viewer.signIn(admin, 'tasks?phone_number=13800138000')
  const other = await context.newPage()
  await other.goto(`${server.url}/console/companies`)
  await other.getByRole('button', { name: 'Add a company' }).first().waitFor() // it knows the first user
  await other.evaluate((body) => fetch('/api/v1/session', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }).then((answer) => answer.text()), reader)
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  await page.locator('header.top').getByRole('button', { name: reader.username }).waitFor()
  assert.equal(new URL(page.url()).search, '', 'the address of the former user is not kept')
  await other.bringToFront() // a browser does not scroll a tab that nobody sees
  const follows = () => other.locator('header.top').getByRole('button', { name: reader.username }).waitFor()
  const refused = async () => {
    await other.getByRole('button', { name: 'Add a company' }).first().click()
    await other.getByLabel('Company number').fill('not-mine')
    await other.getByLabel('Name').fill('Not mine')
    await other.getByRole('button', { name: 'Save' }).click() // 403
    await follows()
  }
  await Promise.any([follows(), refused()]) // an open page also asks by itself
  await viewer.finish()
})

test('after an upgrade, a link whose script is missing loads the whole page once', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^404 GET \S+\/assets\//, /dynamically imported module/] })
  const { page } = viewer
  await viewer.signIn(admin, 'companies')
  // The test counts loads of the page: for one load, the browser asks for a missing file once or twice, because it preloads the file before the import.
  let loads = 0
  page.on('request', (request) => request.isNavigationRequest() && loads++)
  await page.route('**/assets/TemplatesPage*.js', (route) => (loads === 0 ? route.fulfill({ status: 404, body: '' }) : route.continue()))
  await page.getByRole('link', { name: words.en.templates, exact: true }).click()
  await page.getByRole('heading', { level: 1, name: words.en.templates }).waitFor()
  assert.equal(loads, 1)
  // A server that has no such file at all is not asked for ever.
  await page.route('**/assets/UsersPage*.js', (route) => route.fulfill({ status: 404, body: '' }))
  await page.getByRole('link', { name: 'Users and keys', exact: true }).click()
  await page.waitForURL('**/console/users')
  await page.waitForTimeout(1000)
  assert.equal(loads, 2)
  await viewer.finish()
})

test('a list keeps its page after a reload and a step back, and the search button searches again', async () => {
  for (let i = 0; i < 3; i++) await server.api('POST', '/api/v1/sms/send-batch', { messages: Array.from({ length: 40 }, (_, n) => ({ phone_number: `138${String(i * 100 + n).padStart(8, '0')}`, content: `Page ${i} ${n}` })) })
  const viewer = await openPage(browser, server, { language: 'en', expected: [] })
  const { page } = viewer
  await viewer.signIn(admin, 'tasks')
  const at = (n) => page.getByText(`Page ${n}`, { exact: true }).waitFor()
  await at(1)
  await page.getByRole('button', { name: 'Next' }).click()
  await at(2)
  await page.getByRole('button', { name: 'Next' }).click()
  await at(3)
  await page.reload()
  await at(3)
  await page.goBack()
  await at(2)
  await page.getByRole('button', { name: 'Previous' }).click()
  await at(1)
  const asked = page.waitForRequest(/\/api\/v1\/sms\/tasks\?/, { timeout: 3000 })
  await page.getByRole('button', { name: 'Search' }).click() // the same filters
  await asked
  await viewer.go('tasks?from=nonsense&to=2020-01-01T00:00:00Z')
  await page.getByText('Nothing matches').waitFor()
  await viewer.finish()
})

test('responses that take longer than the refresh interval are shown', async () => {
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'tasks')
  await page.getByRole('link', { name: 'Page 2 39' }).waitFor()
  await page.route(/\/api\/v1\/sms\/tasks\?/, async (route) => {
    const answer = await route.fetch()
    await new Promise((resolve) => setTimeout(resolve, 6000))
    await route.fulfill({ response: answer })
  })
  let stop = false
  const sending = (async () => {
    for (let n = 0; !stop; n++) {
      await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138099', content: `Slow ${n}` })
      await new Promise((resolve) => setTimeout(resolve, 1000))
    }
  })()
  try {
    await page.getByRole('link', { name: /^Slow/ }).first().waitFor({ timeout: 25_000 })
  } finally {
    stop = true
    await sending
  }
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  await viewer.finish()
})
