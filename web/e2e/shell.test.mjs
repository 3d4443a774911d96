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
      test(`a viewer signs in, looks around and signs out (${language}, ${dark ? 'dark' : 'light'}, ${narrow ? 'phone' : 'desk'})`, async () => {
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

test('the language and the appearance are remembered', async () => {
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

test('a wrong password is told in the language of the viewer', async () => {
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
  await other.page.getByRole('link', { name: words.en.templates, exact: true }).click()
  await other.page.getByRole('button', { name: words.en.button }).waitFor()
  assert.equal(new URL(other.page.url()).searchParams.get('back'), '/templates')
  await one.finish()
  await other.finish()
})

test('a user sees only what it may do', async () => {
  const reader = { username: 'reader', password: 'reader-of-acme-password' }
  const companies = await server.api('GET', '/api/v1/admin/companies')
  if (!companies.items.some((one) => one.company_no === 'acme')) await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read', company_no: 'acme' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(reader, 'companies')
  await page.getByRole('cell', { name: 'acme', exact: true }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add a company' }).count(), 0)
  assert.equal(await page.getByRole('link', { name: words.en.templates, exact: true }).count(), 0)
  await viewer.go('templates')
  await page.getByText('you may not open it').waitFor()
  await viewer.finish()
})
