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

const routes = '/api/v1/admin/routes'

test('routes are added and changed in the matrix, shares follow the weights, and the page names the sender of a message', async () => {
  for (const no of ['first', 'second', 'reserve']) await server.api('POST', '/api/v1/admin/senders', { sender_no: no, name: no, kind: 'log', status: 'on', is_shared: true })
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'Acme' })
  await server.api('POST', '/api/v1/admin/countries', { country_no: 'CN', name: '中国', dial_prefix: '86' })
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^(409|422) POST \S+\/api\/v1\/admin\/routes$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'routes')
  await page.getByText('No routes yet').waitFor()
  await viewer.checkAccess('no routes')
  await page.getByRole('button', { name: 'Add a route' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.locator('.el-form-item.is-error').filter({ hasText: 'Sender' }).waitFor()
  await form.getByLabel('Sender').fill('first')
  await page.getByRole('option', { name: 'first' }).click()
  await form.getByLabel('Weight').fill('3')
  await viewer.checkAccess('form of a route')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByText('100%').waitFor()

  // The second gets a quarter, and the reserve nothing.
  await server.api('POST', routes, { company_no: 'default', message_type: 'notification', sender_no: 'reserve', sort: -1 })
  await page.getByRole('button', { name: 'Add a route: default, All other countries, Notification' }).click()
  await form.getByLabel('Sender').fill('second')
  await page.getByRole('option', { name: 'second' }).click()
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByText('75%').waitFor()
  await page.getByText('25%').waitFor()
  await page.getByText('Backup').waitFor()
  await server.api('POST', routes, { company_no: 'acme', message_type: 'marketing', country_no: 'CN', sender_no: 'second' })

  await page.getByRole('button', { name: 'Who would get this message?' }).click()
  await form.getByLabel('Phone number').fill('13800138000')
  await form.getByText('The server answered this by a dry run.').waitFor()
  await form.getByText('Country CN.').waitFor()
  const line = (no) => form.getByRole('listitem').filter({ hasText: no })
  await line('first').getByText('Share 75%').waitFor()
  await line('reserve').getByText('A sender with a greater sort is available.').waitFor()
  await viewer.checkAccess('who would send')
  await viewer.screenshot('routes-who')
  await page.keyboard.press('Escape')
  await form.waitFor({ state: 'detached' })

  // A paused sender gives its share to the other one.
  await server.api('PATCH', '/api/v1/admin/senders/first', { status: 'off' })
  await page.reload()
  await page.getByText('Not available').waitFor()
  await page.getByText('Paused: it gets no tasks.').waitFor()
  await viewer.checkAccess('routes')
  await viewer.screenshot('routes')
  await page.getByRole('button', { name: 'Edit the route to second: default' }).click()
  await form.getByRole('button', { name: 'Delete the route' }).click()
  await page.getByRole('dialog', { name: 'Delete this route to second?' }).getByRole('button', { name: 'Delete the route', exact: true }).click()
  await page.getByRole('cell').getByText('Backup').waitFor({ state: 'detached' })

  // The API cannot ask for another company: the page reads its routes.
  await page.getByRole('button', { name: 'Who would get this message?' }).click()
  await form.getByLabel('Company').fill('acme')
  await page.getByRole('option', { name: 'acme · Acme' }).click()
  await form.getByLabel('Phone number').fill('13800138000')
  await form.getByText('The API can ask only for the company default.').waitFor()
  await form.getByText('No route, so the shared senders:').waitFor()
  await viewer.finish()
})

test('a reader sees only the routes of its company, and cannot change them', async () => {
  await server.api('POST', '/api/v1/admin/users', { username: 'reader', password: 'a-long-password', role: 'read', company_no: 'acme' })
  const viewer = await openPage(browser, server, { language: 'zh', narrow: true })
  const { page } = viewer
  await viewer.signIn({ username: 'reader', password: 'a-long-password' }, 'routes')
  await page.getByText('100%').waitFor()
  assert.equal(await page.getByText('default').count(), 0)
  for (const name of [/新增/, /^编辑/]) assert.equal(await page.getByRole('button', { name }).count(), 0)
  await viewer.checkAccess('routes of a reader')
  await viewer.screenshot('routes-reader')
  await page.getByRole('button', { name: '这条短信由谁发送？' }).click()
  await page.getByRole('dialog').getByText(/没有路由|由路由指定/).waitFor()
  await viewer.checkAccess('who, for a reader')
  await viewer.finish()
})
