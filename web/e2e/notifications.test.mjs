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

test('contacts are added, pasted, rejected if invalid, found and deleted', async () => {
  const viewer = await openPage(browser, server, { expected: [/^422 PUT \S+\/contacts$/, /^404 GET \S+\/contacts\/\w+$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'contacts')
  await page.getByText('还没有联系人').waitFor()
  await page.getByRole('button', { name: '新增联系人' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('用户编号').fill('zhang')
  await form.getByLabel('手机号（短信）').fill('12')
  await form.getByRole('button', { name: '保存' }).click()
  await form.locator('.el-form-item.is-error').waitFor()
  await form.getByLabel('手机号（短信）').fill('13800138000')
  await viewer.checkAccess('contact form')
  await form.getByRole('button', { name: '保存' }).click()
  await page.getByRole('row').filter({ hasText: 'zhang' }).waitFor()
  assert.equal(await page.getByText('13800138000').count(), 0, 'addresses are masked')

  await page.getByRole('button', { name: '新增联系人' }).first().click()
  await form.getByLabel('用户编号').fill('zhang')
  await form.getByRole('button', { name: '保存' }).click()
  await form.getByText('请改为编辑它').waitFor() // a contact that exists is not overwritten
  await form.getByRole('button', { name: '取消', exact: true }).click()
  await form.getByRole('button', { name: '放弃修改' }).click()

  await page.getByRole('button', { name: '批量新增和修改' }).click()
  await form.getByLabel('每行一个联系人').fill('user_id\tphone\temail\nli\t13900139000\tli@example.com\nwang\t\tnot-an-address')
  await form.getByRole('row').filter({ hasText: 'wang' }).waitFor()
  await form.getByRole('button', { name: '保存 2 个联系人' }).click()
  await form.getByRole('row').filter({ hasText: 'wang' }).getByText(/email:/).waitFor()
  await viewer.checkAccess('refused rows')
  await form.getByLabel('每行一个联系人').fill('user_id,phone,email\nli,13900139000,li@example.com\n"wang",,wang@example.com')
  await viewer.screenshot('contacts-paste')
  await form.getByRole('button', { name: '保存 2 个联系人' }).click()
  await page.getByRole('row').filter({ hasText: 'wang' }).waitFor()
  await viewer.checkAccess('contacts')

  await page.getByLabel('编号、手机号或邮箱（开头）').fill('li')
  await page.keyboard.press('Enter')
  await page.getByRole('row').filter({ hasText: 'zhang' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: '清除条件' }).click()
  for (const name of ['li', 'wang']) await page.getByRole('row').filter({ hasText: name }).locator('.el-checkbox').click()
  await page.getByRole('button', { name: '删除所选' }).click()
  await page.getByRole('dialog').getByText('2', { exact: true }).waitFor()
  await viewer.checkAccess('delete contacts')
  await page.getByRole('dialog').getByRole('button', { name: '删除联系人' }).click()
  await page.getByRole('row').filter({ hasText: 'wang' }).waitFor({ state: 'detached' })
  await viewer.finish()
})

test('a notification is previewed, sent, shown with the result for each person, cancelled and deleted', async () => {
  await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id: 'chen', email: 'chen@example.com' }] })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'notifications')
  await page.getByText('No notifications yet').waitFor()
  await viewer.checkAccess('no notifications')
  await page.getByRole('button', { name: 'How notifications work' }).click()
  await page.getByText('node_started').waitFor()
  await viewer.checkAccess('notifications explained')
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'New notification' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Channels').fill('email')
  await page.keyboard.press('Enter')
  await page.keyboard.press('Escape')
  await form.getByLabel('Receivers (user ids)').fill('chen, nobody')
  await form.getByLabel('Business id').fill('77')
  await form.getByLabel('taskName').fill('inspection')
  await form.getByText('Missing: creatorName, createTime').waitFor()
  await form.getByLabel('creatorName').fill('Zhang')
  await form.getByLabel('createTime').fill('10:00')
  await form.getByText('【inspection】已发起').waitFor()
  await viewer.checkAccess('notification form')
  await viewer.screenshot('notification-form')
  await form.getByRole('button', { name: 'Send 2 messages' }).click()
  const made = page.getByRole('dialog').filter({ hasText: 'The notifications exist' })
  await made.getByText(/nobody:/).waitFor()
  await viewer.checkAccess('made notifications')
  await made.getByRole('link').click()

  await page.getByRole('heading', { name: /^Notification \d+/ }).waitFor()
  const person = page.getByRole('row').filter({ hasText: 'nobody' })
  await person.getByText('failed').waitFor()
  await page.getByRole('row').filter({ hasText: 'chen' }).getByText('waiting').waitFor()
  await viewer.checkAccess('notification')
  await viewer.screenshot('notification')
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  await page.getByRole('dialog').getByText('waiting notifications', { exact: false }).first().waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the notifications' }).click()
  await page.getByRole('row').filter({ hasText: 'chen' }).getByText('cancelled').waitFor()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the notifications' }).click()
  await page.getByText('No notifications yet').waitFor()

  await page.getByRole('button', { name: 'Report a business event' }).click()
  await form.getByLabel('Task (task_id)').fill('12')
  await viewer.checkAccess('event form')
  await viewer.screenshot('event-form')
  await viewer.finish()
})

test('a preview shows the template of a business type during editing', async () => {
  const viewer = await openPage(browser, server, { narrow: true })
  const { page } = viewer
  await viewer.signIn(admin, 'notification-templates')
  await page.getByRole('heading', { name: '任务创建' }).waitFor()
  await viewer.checkAccess('notification templates')
  await page.getByRole('button', { name: '为其他通道新增：任务创建' }).click()
  const form = page.getByRole('dialog')
  await form.getByRole('combobox', { name: '通道' }).fill('sms')
  await page.keyboard.press('Enter')
  await page.keyboard.press('Escape')
  await form.getByLabel('标题').fill('${taskName}')
  await form.getByLabel('内容').fill('${creatorName} 发起了 ${taskName}')
  await form.getByText('张三 发起了 应急成像').waitFor()
  await viewer.checkAccess('notification template form')
  await viewer.screenshot('notification-template-form')
  await form.getByRole('button', { name: '保存' }).click()
  const row = page.getByRole('row').filter({ hasText: '${creatorName} 发起了 ${taskName}' })
  await row.getByRole('button', { name: /^停用/ }).click()
  await row.getByText('已停用').waitFor()
  await row.getByRole('button', { name: /^删除/ }).click()
  await page.getByRole('dialog').getByRole('button', { name: '删除模板' }).click()
  await row.waitFor({ state: 'detached' })
  await viewer.finish()
})

test('a company template replaces a platform template, and keeps its HTML while it is disabled', async () => {
  const submitter = { username: 'tpl-writer', password: 'password-of-tpl-writer' }
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'tpl', name: 'TPL' })
  await server.api('POST', '/api/v1/admin/users', { ...submitter, role: 'submit', company_no: 'tpl' })
  const own = { title: 'of tpl', content: 'text of tpl', html: '<p>html of tpl</p>' }
  await server.api('PUT', '/api/v1/admin/notification-templates/3/email', own, submitter)
  const stored = async () => (await server.api('GET', '/api/v1/admin/notification-templates?company_no=tpl')).items

  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(submitter, 'notification-templates')
  const row = page.getByRole('row').filter({ hasText: 'text of tpl' })
  await row.getByText('the company').waitFor()
  await page.getByRole('row').filter({ hasText: 'the platform (replaced)' }).waitFor()
  await viewer.checkAccess('notification templates of a company')
  await viewer.screenshot('notification-templates-of-company')
  await row.getByRole('button', { name: /^Disable/ }).click()
  await row.getByText(/Disabled$/).waitFor() // 'Disabled' ignores the case, and is also found in the texts of the buttons Disable and Delete
  assert.deepEqual((await stored()).map(({ html, enabled }) => [html, enabled]), [[own.html, false]])
  await row.getByRole('button', { name: /^Edit/ }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Text', { exact: true }).fill('another text of tpl')
  assert.equal(await form.getByLabel('HTML').inputValue(), own.html)
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('row').filter({ hasText: 'another text of tpl' }).waitFor()
  assert.deepEqual((await stored()).map(({ html, content }) => [html, content]), [[own.html, 'another text of tpl']])

  // One of the platform alone is replaced, and not changed.
  const dingtalk = page.getByRole('button', { name: 'Replace the template “Task finished · dingtalk” for the company' })
  await dingtalk.click()
  await form.getByLabel('Text', { exact: true }).fill('replaced by tpl')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('row').filter({ hasText: 'replaced by tpl' }).getByText('the company').waitFor()
  assert.deepEqual((await stored()).map(({ channel }) => channel).sort(), ['dingtalk', 'email'])
  await viewer.finish()

  const admins = await openPage(browser, server, { language: 'en' })
  await admins.signIn(admin, 'notification-templates?company_no=tpl')
  const theirs = admins.page.getByRole('row').filter({ hasText: 'replaced by tpl' })
  await theirs.getByRole('button', { name: /^Delete/ }).click()
  await admins.page.getByRole('dialog').getByRole('button', { name: 'Delete the template' }).click()
  await theirs.waitFor({ state: 'detached' })
  assert.deepEqual((await stored()).map(({ channel }) => channel), ['email'])
  await admins.finish()
})

test('an administrator cancels notifications of another company, and a large business id stays exact', async () => {
  const submitter = { username: 'acme-notifier', password: 'password-of-acme-notifier' }
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  await server.api('POST', '/api/v1/admin/users', { ...submitter, role: 'submit', company_no: 'acme' })
  const bizId = '9007199254740993' // 2^53 + 1, which a number of JavaScript cannot hold
  const create = async (as, user_id) => {
    await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id, email: `${user_id}@example.com` }] }, as)
    const answer = await fetch(`${server.url}/api/v1/notifications`, {
      method: 'POST',
      headers: { Authorization: `Basic ${Buffer.from(`${as.username}:${as.password}`).toString('base64')}`, 'Content-Type': 'application/json' },
      body: `{"biz_type": 3, "biz_id": ${bizId}, "channels": ["email"], "payload": {"taskName": "x"}, "user_ids": ["${user_id}"], "next_run_time": "${new Date(Date.now() + 86_400_000).toISOString()}"}`,
    })
    assert.equal(answer.status, 200)
    return (await answer.json()).data.items[0].notification_id
  }
  const theirs = await create(submitter, 'of-acme')
  const own = await create(admin, 'of-default')
  const status = async (id) => (await server.api('GET', `/api/v1/notifications/${id}`)).status

  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, `notifications?biz_id=${bizId}`)
  const row = page.getByRole('row').filter({ hasText: 'acme' })
  await row.getByText(bizId).waitFor()
  await viewer.checkAccess('notifications of companies')
  await row.getByRole('link', { name: String(theirs) }).click()
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(`Company acme: Cancel the notifications of “Task finished ${bizId}”?`).waitFor()
  await dialog.getByText('1', { exact: true }).waitFor()
  await dialog.getByRole('button', { name: 'Cancel the notifications' }).click()
  await page.getByText('The notifications are cancelled.').waitFor()
  assert.deepEqual([await status(theirs), await status(own)], [3, 0])

  // Meanwhile, somebody else was faster.
  await page.getByRole('button', { name: 'Send now', exact: true }).click()
  await dialog.getByRole('button', { name: 'Send now' }).waitFor()
  await server.api('DELETE', `/api/v1/notifications?company_no=acme&biz_type=3&biz_ids=${bizId}`)
  await dialog.getByRole('button', { name: 'Send now' }).click()
  await dialog.getByText('No notification was changed').waitFor()
  assert.equal(await status(own), 0)
  await viewer.finish()
})

test('the table of notification templates fits a window of 1280 pixels, even with the longest WeChat ids', async () => {
  const id = 'wechat-template-id-of-43-characters-1234567'
  assert.equal(id.length, 43)
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'wide', name: 'Wide' })
  await server.api('PUT', '/api/v1/admin/notification-templates/3/wechat?company_no=wide', { title: '${taskName}', content: '${creatorName} 发起了 ${taskName}', external_id: id })
  for (const language of languages) {
    for (const address of ['notification-templates', 'notification-templates?company_no=wide']) {
      const viewer = await openPage(browser, server, { language })
      const { page } = viewer
      await page.setViewportSize({ width: 1280, height: 900 })
      await viewer.signIn(admin, address)
      if (address.includes('wide')) await page.getByText(id).waitFor()
      await viewer.checkAccess(address)
      const wide = await page.evaluate(() => [...document.querySelectorAll('.scroll-x')].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.getAttribute('aria-label')))
      assert.deepEqual(wide, [], `tables of ${address} that scroll sideways (${language})`)
      await viewer.finish()
    }
  }
})
