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

const claim = (limit) => server.api('POST', '/api/v1/sms/tasks/claim', { app_id: 'phone_1', limit, wait: 1 })
const report = ({ task_id, lease_id }, status) => server.api('POST', '/api/v1/sms/report', { task_id, app_id: 'phone_1', lease_id, status, ...(status === 3 ? { error_message: '无信号' } : {}) })

/** 手机号,姓名 in GB18030: two good rows, a duplicate, a shortened number, and a row without a name. */
const list = Buffer.concat([
  Buffer.from('cad6bbfabac52cd0d5c3fb0a', 'hex'),
  Buffer.from('13800138000,', 'latin1'),
  Buffer.from('d5c5c8fd0a', 'hex'), // 张三
  Buffer.from('13900139000,', 'latin1'),
  Buffer.from('c0eecbc40a', 'hex'), // 李四
  Buffer.from('13800138000,', 'latin1'),
  Buffer.from('cdf5cee50a', 'hex'), // 王五
  Buffer.from('1.38E+10,', 'latin1'),
  Buffer.from('d5d4c1f90a', 'hex'), // 赵六
  Buffer.from('13700137000,\n', 'latin1'),
])

test('each row of an e-mail list gets its own subject and HTML, and the form of a batch selects tags', async () => {
  await server.api('PUT', '/api/v1/tags/vip', {})
  const viewer = await openPage(browser, server)
  const { page } = viewer
  await viewer.signIn(admin, 'batches')
  await page.getByRole('button', { name: '新建批次' }).first().click()
  await page.getByRole('heading', { name: '新建批次' }).waitFor()
  await page.getByRole('combobox', { name: '通道' }).click({ force: true })
  await page.getByRole('option', { name: '电子邮件' }).click()
  await page.locator('input[type=file]').setInputFiles({ name: 'mail.csv', mimeType: 'text/csv', buffer: Buffer.from("姓名,邮箱\nO'Brien <b>,ann@example.com\n李四,no address\n") })
  await page.getByText('2 列').waitFor()
  await page.getByRole('textbox', { name: '主题' }).fill('{姓名}，您好')
  await page.locator('textarea').first().fill('亲爱的{姓名}')
  await page.getByRole('textbox', { name: 'HTML 正文' }).fill('<p>{姓名}</p>')
  await page.getByText("O'Brien <b>，您好").waitFor()
  await page.getByRole('button', { name: '下一行' }).click()
  await page.getByText('这一行没有有效的地址').waitFor()
  await viewer.checkAccess('e-mail batch form')
  await viewer.screenshot('batch-email-form', { fullPage: true })
  await page.getByRole('button', { name: '检查名单' }).click()
  await page.getByRole('heading', { name: 'mail' }).getByText('待确认').waitFor()
  await page.getByText("O'Brien <b>，您好").last().waitFor()
  await page.locator('summary', { hasText: 'HTML 正文' }).click()
  await page.getByText('<p>O&#39;Brien &lt;b&gt;</p>').waitFor()
  await page.getByRole('region', { name: '名单的行' }).getByRole('row').filter({ hasText: '地址无效' }).waitFor()
  await viewer.checkAccess('e-mail batch')
  await viewer.screenshot('batch-email', { fullPage: true })
  await page.goto(`${server.url}/console/batches/new?tag=vip`)
  await page.getByText('至少有其中一个标签').first().waitFor()
  await viewer.screenshot('batch-tags-form', { fullPage: true })
})

test('a list is uploaded, previewed by row, checked, confirmed, paused, sent and requeued', async () => {
  const viewer = await openPage(browser, server)
  const { page } = viewer
  await viewer.signIn(admin, 'batches')
  await page.getByRole('button', { name: '新建批次' }).first().waitFor()
  await viewer.checkAccess('no batches')
  await page.getByRole('button', { name: '新建批次' }).first().click()
  await page.getByRole('heading', { name: '新建批次' }).waitFor()
  await page.locator('input[type=file]').setInputFiles({ name: '双十一.csv', mimeType: 'text/csv', buffer: list })
  await page.getByText('2 列 · 文字编码 GB18030').waitFor()
  await page.getByText('数字不完整').first().waitFor()
  assert.equal(await page.getByText('13800138000').count(), 0, 'numbers are masked')
  assert.equal(await page.getByRole('textbox', { name: '名称' }).inputValue(), '双十一')
  await page.getByRole('button', { name: '插入列 姓名' }).click()
  await page.keyboard.type('，您的优惠券今日到期 {券码}')
  await page.getByText('名单中没有这些列：券码').waitFor()
  await page.getByRole('textbox', { name: '正文' }).fill('{姓名}，您的优惠券今日到期')
  await page.getByRole('textbox', { name: '签名' }).fill('示例公司')
  await page.getByText('【示例公司】张三，您的优惠券今日到期').waitFor()
  await page.getByText('计费 1 条').first().waitFor()
  await page.getByRole('button', { name: '下一行' }).click()
  await page.getByText('【示例公司】李四，您的优惠券今日到期').waitFor()
  await viewer.checkAccess('batch form')
  await viewer.screenshot('batch-form', { fullPage: true })
  await page.getByRole('button', { name: '检查名单' }).click()

  await page.getByRole('heading', { name: '双十一' }).getByText('待确认').waitFor()
  await page.getByText('2 条可以发送').waitFor()
  await page.getByText('【示例公司】张三，您的优惠券今日到期').last().waitFor() // the preview of the first valid row
  await viewer.checkAccess('checked batch')
  await viewer.screenshot('batch-ready', { fullPage: true })
  await page.getByRole('link', { name: /^查看这些行：无效 2/ }).click()
  const rows = page.getByRole('region', { name: '名单的行' }).getByRole('row')
  await rows.filter({ hasText: '手机号无效' }).waitFor()
  await page.getByRole('combobox', { name: '原因' }).click({ force: true })
  await page.getByRole('option', { name: '正文无效' }).click()
  await rows.filter({ hasText: '手机号无效' }).waitFor({ state: 'detached' })
  await rows.filter({ hasText: '正文无效' }).waitFor()
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: '下载无法发送的行' }).click()])
  assert.match(readFileSync(await file.path(), 'utf8'), /^\uFEFF[^]*1\.38E\+10/)
  await page.getByRole('button', { name: '清除条件' }).click()

  await page.getByRole('button', { name: '确认发送' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('2', { exact: true }).waitFor()
  await dialog.getByText('合计计费 2 条').waitFor()
  await dialog.getByRole('button', { name: '确认发送' }).click()
  await page.getByRole('heading', { name: '双十一' }).getByText('发送中').waitFor()
  await page.getByRole('button', { name: '暂停' }).click()
  await page.getByRole('heading', { name: '双十一' }).getByText('已暂停').waitFor()
  await page.getByRole('button', { name: '继续发送' }).click()
  await page.getByRole('heading', { name: '双十一' }).getByText('发送中').waitFor()
  await page.locator('dt', { hasText: /^暂停$/ }).waitFor() // who did what is shown
  await page.locator('dt', { hasText: /^继续$/ }).waitFor()
  const tasks = []
  for (const until = Date.now() + 15_000; tasks.length < 2 && Date.now() < until; ) tasks.push(...(await claim(10)))
  await report(tasks[0], 2)
  await report(tasks[1], 3)
  await page.getByRole('heading', { name: '双十一' }).getByText('已完成').waitFor()
  await page.getByText('2 / 2 条已结束').waitFor()
  await viewer.screenshot('batch-finished', { fullPage: true })
  await page.getByRole('button', { name: '重发失败的' }).click()
  await dialog.getByRole('button', { name: '重发失败的' }).click()
  await page.getByRole('heading', { name: '双十一' }).getByText('发送中').waitFor()
  await page.getByRole('link', { name: '在任务列表中查看' }).click()
  await page.waitForURL(/tasks\?batch_id=\d+/)
  await page.getByRole('row').filter({ hasText: '李四' }).waitFor()
  await page.goBack()
  await page.getByRole('button', { name: '取消批次' }).click()
  await dialog.getByRole('button', { name: '取消批次' }).click()
  await page.getByRole('heading', { name: '双十一' }).getByText('已取消').waitFor()
  await page.getByRole('link', { name: '批次' }).first().click()
  await page.getByRole('row').filter({ hasText: '双十一' }).locator('.tag', { hasText: '已取消' }).waitFor()
  await viewer.checkAccess('batches')
  await viewer.finish()
})

test('users of one company send to a tag, and see only their own batches', async () => {
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  await server.api('POST', '/api/v1/admin/template', { template_no: 'recall', template_name: 'recall', template_content: '{name}, your {level} coupon ends today' })
  const shop = { username: 'acme-shop', password: 'a-password-of-acme' }
  const reader = { username: 'acme-reader', password: 'a-password-of-acme' }
  for (const [user, role] of [[shop, 'submit'], [reader, 'read']]) await server.api('POST', '/api/v1/admin/users', { ...user, role, company_no: 'acme' })
  await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id: 'ann', name: 'Ann', phone: '13800138000', attributes: { level: 'VIP' } }, { user_id: 'bob', phone: '13900139000' }] }, shop)
  await server.api('PUT', '/api/v1/tags/VIP', undefined, shop)
  await server.api('POST', '/api/v1/tags/VIP/contacts', { add: ['ann', 'bob'] }, shop)

  const viewer = await openPage(browser, server, { language: 'en', dark: true, narrow: true, expected: [/^422 POST \S+\/api\/v1\/(sms\/send|batches)/] })
  const { page } = viewer
  await viewer.signIn(shop, 'batches/new?tag=VIP')
  await page.getByText('Row 1', { exact: true }).waitFor()
  await page.getByText('A template', { exact: true }).click()
  await page.getByRole('button', { name: 'Check the list' }).click()
  await page.locator('.el-form-item.is-error').first().waitFor()
  await page.getByRole('combobox', { name: 'Template number' }).click()
  await page.getByRole('option', { name: 'recall' }).click()
  await page.getByText('Ann, your VIP coupon ends today').waitFor()
  await viewer.checkAccess('batch of a tag')
  await viewer.screenshot('batch-form', { fullPage: true })
  await page.getByRole('button', { name: 'Check the list' }).click()
  await page.getByRole('heading', { name: 'VIP' }).getByText('To be confirmed').waitFor()
  await page.getByRole('row').filter({ hasText: 'Wrong text' }).waitFor() // Bob has no name
  await viewer.checkAccess('checked batch')
  await viewer.screenshot('batch-ready', { fullPage: true })
  await viewer.finish()

  const other = await openPage(browser, server, { language: 'en' })
  await other.signIn(reader, 'batches')
  await other.page.getByRole('link', { name: 'VIP' }).click()
  await other.page.getByRole('heading', { name: 'VIP' }).waitFor()
  await other.page.getByRole('row').filter({ hasText: 'Wrong text' }).waitFor()
  for (const name of ['Confirm and send', 'Cancel the batch', 'New batch']) assert.equal(await other.page.getByRole('button', { name }).count(), 0, `${name} for a reader`)
  await other.go('batches/new')
  await other.page.getByRole('heading', { name: 'New batch' }).waitFor({ state: 'detached' })
  await other.screenshot('batch-reader')
  await other.finish()
})
