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

test('a user is added with a password, gets a key that is shown once, and is disabled', async () => {
  const viewer = await openPage(browser, server, { expected: [/^422 POST \S+\/users$/, /^404 GET \S+\/users\/nobody$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'users')
  await page.getByText('还没有用户').waitFor()
  await viewer.checkAccess('no users')
  await page.getByRole('button', { name: '角色说明' }).click()
  await page.getByText('BASIC_AUTH_USERNAME').waitFor()
  await viewer.checkAccess('roles')
  await page.keyboard.press('Escape')

  await page.getByRole('button', { name: '新增用户' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('用户名').fill('billing')
  await form.getByLabel('密码').fill('short')
  await form.getByRole('button', { name: '保存' }).click()
  await form.locator('.el-form-item.is-error').waitFor()
  await viewer.checkAccess('refused user')
  await form.getByRole('button', { name: '随机生成' }).click()
  const password = await form.getByRole('textbox', { name: '密码' }).last().inputValue()
  assert.match(password, /^\w{20}$/)
  await viewer.screenshot('user-form')
  await form.getByRole('button', { name: '保存' }).click()
  const row = page.getByRole('row').filter({ hasText: 'billing' })
  await row.getByText('公司 default').waitFor()
  await viewer.checkAccess('users')

  await row.getByRole('button', { name: '“billing”的 API 密钥' }).click()
  const drawer = page.getByRole('dialog')
  await drawer.getByText('还没有 API 密钥').waitFor()
  await drawer.getByLabel('新密钥的用途').fill('账单系统')
  await drawer.getByRole('button', { name: '创建密钥' }).click()
  const key = await drawer.getByRole('textbox', { name: '密钥', exact: true }).inputValue()
  assert.match(key, /^lksms_/)
  await viewer.checkAccess('new key')
  await viewer.screenshot('new-key')
  const session = async (authorization) => (await fetch(`${server.url}/api/v1/session`, { headers: { Authorization: authorization } })).status
  assert.equal(await session(`Bearer ${key}`), 200)
  assert.equal(await session(`Basic ${Buffer.from(`billing:${password}`).toString('base64')}`), 200)
  await drawer.getByRole('button', { name: '已保存，隐藏密钥' }).click()
  assert.equal(await page.getByText(key).count(), 0)
  await drawer.getByRole('button', { name: '删除密钥“账单系统”' }).click()
  await page.getByRole('button', { name: '删除密钥', exact: true }).click()
  await drawer.getByText('还没有 API 密钥').waitFor()
  assert.equal(await session(`Bearer ${key}`), 401)
  await page.keyboard.press('Escape')

  await row.getByRole('button', { name: '停用用户“billing”' }).click()
  await page.getByRole('dialog').getByRole('button', { name: '停用用户', exact: true }).click()
  await row.getByText('已停用').waitFor()
  await page.getByLabel('用户名（完整）').fill('nobody')
  await page.keyboard.press('Enter')
  await page.getByText('没有符合条件的记录').waitFor()
  await viewer.finish()
})

test('the settings page, the events and the audit show who changed a setting', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^422 PUT \S+\/settings\/monitoring$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'settings')
  const card = page.locator('#settings-monitoring')
  await card.waitFor()
  assert.equal(await page.getByText('changed', { exact: true }).count(), 0, 'the defaults of the page are those of the server')
  for (const name of ['queue.max_retry_count', 'queue.retry_delay_seconds', 'queue.retry_max_wait_seconds', 'queue.processing_timeout_seconds', 'sms.send_tests']) {
    await page.getByText(name, { exact: true }).waitFor()
  }
  await viewer.checkAccess('settings')
  const zone = card.getByLabel('Time zone of the statistics')
  await zone.fill('Mars/Base')
  await card.getByRole('button', { name: 'Save “Monitoring”' }).click()
  await card.locator('.el-form-item.is-error').waitFor()
  await viewer.checkAccess('refused setting')
  await zone.fill('Europe/Berlin')
  await page.getByText('1 setting not saved').waitFor()
  await card.getByRole('button', { name: 'Save “Monitoring”' }).click()
  await card.getByText('from “Asia/Shanghai” to “Europe/Berlin”').waitFor()
  await viewer.screenshot('settings', { fullPage: true })
  await card.getByRole('link', { name: 'All changes' }).click()

  await page.getByRole('heading', { name: 'Audit' }).waitFor()
  assert.equal(new URL(page.url()).searchParams.get('entity_key'), 'monitoring/time_zone')
  await page.getByRole('row').filter({ hasText: 'Europe/Berlin' }).waitFor()
  await server.api('PUT', '/api/v1/admin/settings/monitoring', { time_zone: 'Asia/Tokyo' })
  await page.getByRole('button', { name: 'Search' }).click()
  await page.reload()
  await page.getByRole('button', { name: 'Details: changed setting monitoring/time_zone' }).first().click() // the newest
  const details = page.getByRole('dialog')
  await details.getByRole('row').filter({ hasText: 'Europe/Berlin' }).filter({ hasText: 'Asia/Tokyo' }).waitFor()
  assert.equal(await details.getByRole('row').count(), 2, 'only what differs')
  await viewer.checkAccess('audit entry')
  await viewer.screenshot('audit-entry')
  await details.getByRole('button', { name: 'All changes by “admin”' }).click()
  await page.getByRole('row').nth(2).waitFor()
  await viewer.checkAccess('audit')

  await viewer.go('events')
  await page.getByRole('row').filter({ hasText: 'monitoring.time_zone' }).first().waitFor()
  await viewer.checkAccess('events')
  await viewer.finish()
})

test('a country and a channel are added, rejected if invalid, changed and deleted', async () => {
  const viewer = await openPage(browser, server, { expected: [/^422 POST \S+\/countries$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'countries')
  await page.getByText('还没有国家').waitFor()
  await page.getByRole('button', { name: '新增国家' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByRole('textbox', { name: '国家编号' }).fill('US')
  await form.getByLabel('名称').fill('美国')
  await form.getByLabel('国际区号').fill('x')
  await form.getByRole('button', { name: '保存' }).click()
  await form.locator('.el-form-item.is-error').waitFor()
  await form.getByLabel('国际区号').fill('+1')
  await viewer.checkAccess('country form')
  await form.getByRole('button', { name: '保存' }).click()
  await page.getByRole('row').filter({ hasText: '美国' }).getByText('US').first().waitFor()
  await viewer.checkAccess('countries')

  await viewer.go('channels')
  await page.getByRole('button', { name: '新增通道' }).click()
  await form.getByLabel('通道编号').fill('voice')
  await form.getByLabel('名称').fill('语音')
  await form.getByText('自定义').click()
  await form.getByLabel('每次重试前等待的分钟数').fill('1, x')
  await form.getByRole('button', { name: '保存' }).click()
  await form.locator('.el-form-item.is-error').waitFor()
  await form.getByLabel('每次重试前等待的分钟数').fill('1, 90')
  await viewer.checkAccess('channel form')
  await form.getByRole('button', { name: '保存' }).click()
  const row = page.getByRole('row').filter({ hasText: '语音' })
  await row.getByText('1 分、1 小时 30 分后').waitFor()
  await viewer.checkAccess('channels')
  await row.getByRole('button', { name: '编辑' }).click()
  await form.locator('.el-switch').click()
  await form.getByRole('button', { name: '保存' }).click()
  await row.getByText('已停用').waitFor()
  await row.getByRole('button', { name: '删除通道' }).click()
  await page.getByRole('dialog').getByRole('button', { name: '删除通道', exact: true }).click()
  await row.waitFor({ state: 'detached' })
  await viewer.finish()
})

test('the region of the phone numbers of a company is set', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'jaya', name: 'Jaya' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'companies')
  await page.getByRole('button', { name: 'Edit the company “Jaya”' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Region of numbers').fill('id')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.waitFor({ state: 'hidden' })
  assert.equal((await server.api('GET', '/api/v1/admin/companies/jaya')).default_region, 'ID')
  await viewer.finish()
})

test('the recipient rules of a company are set', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'quiet', name: 'Quiet' })
  const rules = async () => (await server.api('GET', '/api/v1/admin/companies/quiet')).recipient
  for (const [language, texts] of Object.entries({
    en: { open: 'Rules of the company “Quiet” about recipients', hours: 'Quiet hours of marketing', own: 'Own hours', none: 'As in the settings', caps: 'At most codes to a number', day: 'in 24 hours', words: 'Texts that stop marketing', reply: 'Confirmation', countries: 'Countries that get codes by SMS', only: 'Only the country of the company', list: 'The country of the company, and these', codes: 'Codes of countries', save: 'Save' },
    zh: { open: '公司“Quiet”的收件人规则', hours: '营销的免打扰时段', own: '自定时段', none: '与系统设置相同', caps: '同一号码的验证码上限', day: '每 24 小时', words: '停收营销的内容', reply: '确认短信', countries: '可接收短信验证码的国家', only: '只有公司所在国家', list: '公司所在国家和以下国家', codes: '国家代码', save: '保存' },
  })) {
    const viewer = await openPage(browser, server, { language, narrow: language === 'zh', dark: language === 'zh', expected: [/^422 PATCH \S+\/companies\/quiet$/] })
    const { page } = viewer
    await viewer.signIn(admin, 'companies')
    await page.getByRole('button', { name: texts.open }).click()
    const form = page.getByRole('dialog')
    const choose = async (option, field = texts.hours) => {
      await form.getByRole('combobox', { name: field }).click({ force: true })
      await page.getByRole('listbox', { name: field }).getByRole('option', { name: option }).click() // the list of another field is possibly still closing
    }
    await choose(texts.own)
    const hours = form.getByRole('textbox', { name: texts.hours })
    await hours.fill('20:00-20:00')
    await form.getByRole('button', { name: texts.save }).click()
    await form.locator('.el-form-item.is-error').first().waitFor() // a day without an end
    await hours.fill('20:00-10:00')
    const codes = form.getByRole('group', { name: texts.caps })
    await codes.getByLabel(texts.day).fill('10')
    await form.getByLabel(texts.words).fill('enough\nbasta')
    await form.getByLabel(texts.reply).fill('No more offers')
    await choose(texts.list, texts.countries)
    await form.getByRole('textbox', { name: texts.codes }).fill('de，xx')
    await form.getByRole('button', { name: texts.save }).click()
    await form.locator('.el-form-item.is-error').filter({ hasText: texts.countries }).waitFor() // XX is no country
    await form.getByRole('textbox', { name: texts.codes }).fill('de，fr')
    await viewer.checkAccess(`rules about recipients in ${language}`)
    await viewer.screenshot('company-recipients')
    await form.getByRole('button', { name: texts.save }).click()
    await form.waitFor({ state: 'hidden' })
    const set = await rules()
    assert.deepEqual(set.verification_countries, ['DE', 'FR'])
    assert.deepEqual([set.quiet_hours, set.caps.verification.per_day, set.opt_out_words, set.opt_out_reply, set.opt_in_words], [{ notification: null, marketing: '20:00-10:00' }, 10, ['enough', 'basta'], 'No more offers', null])

    await page.getByRole('button', { name: texts.open }).click()
    assert.equal(await form.getByRole('textbox', { name: texts.codes }).inputValue(), 'DE, FR')
    await choose(texts.only, texts.countries)
    await choose(texts.none)
    await codes.getByLabel(texts.day).fill('')
    await form.getByLabel(texts.words).fill('')
    await form.getByLabel(texts.reply).fill('')
    await form.getByRole('button', { name: texts.save }).click()
    await form.waitFor({ state: 'hidden' })
    const cleared = await rules()
    assert.deepEqual(cleared.verification_countries, [])
    await page.getByRole('button', { name: texts.open }).click()
    await choose(texts.none, texts.countries)
    await form.getByRole('button', { name: texts.save }).click()
    await form.waitFor({ state: 'hidden' })
    assert.equal((await rules()).verification_countries, null)
    assert.deepEqual([cleared.quiet_hours.marketing, cleared.caps.verification.per_day, cleared.opt_out_words, cleared.opt_out_reply], [null, null, null, null])
    await viewer.finish()
  }
})

test('users of one company see only the links and buttons that their roles allow', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'Acme' })
  const users = [
    { username: 'acme-reader', role: 'read' },
    { username: 'acme-shop', role: 'submit' },
  ].map((user) => ({ ...user, password: 'a-password-of-acme', company_no: 'acme' }))
  for (const user of users) await server.api('POST', '/api/v1/admin/users', user)
  for (const user of users) {
    const viewer = await openPage(browser, server, { language: 'en' })
    const { page } = viewer
    await viewer.signIn(user, 'contacts')
    await page.getByText('No contacts yet').waitFor()
    for (const name of ['Users and keys', 'Settings', 'Audit', 'Events']) assert.equal(await page.getByRole('link', { name, exact: true }).count(), 0, `${name} for ${user.role}`)
    assert.equal((await page.getByRole('button', { name: 'Add a contact' }).count()) > 0, user.role === 'submit')
    await viewer.checkAccess('contacts of a company')
    await viewer.go('notifications')
    await page.getByText('No notifications yet').waitFor()
    assert.equal((await page.getByRole('button', { name: 'New notification' }).count()) > 0, user.role === 'submit')
    await viewer.go('subscribe-messages')
    await page.getByText('No subscribe messages yet').waitFor()
    await viewer.checkAccess('subscribe messages')
    await viewer.finish()
  }
})
