import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { admin, openPage, startBrowser, startServer, waitForCount } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

/** The content of the file that a button hands over. */
async function fileOf(page, button) {
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()])
  return readFileSync(await file.path(), 'utf8')
}

test('contacts are imported into a tag, selected by tags, exported, changed and removed from a tag', async () => {
  const viewer = await openPage(browser, server)
  const { page } = viewer
  await viewer.signIn(admin, 'contacts')
  await page.getByRole('button', { name: '导入', exact: true }).click()
  const form = page.getByRole('dialog')
  await form.getByRole('button', { name: '开始导入' }).click()
  await form.getByText('请选择文件').waitFor()
  await form.locator('input[type=file]').setInputFiles({ name: 'vip.csv', mimeType: 'text/csv', buffer: Buffer.from('工号,姓名,手机号,等级\nzhang,张三,13800138000,金\nli,李四,13900139000,银\nwang,王五,12,金\nzhao,赵六,13700137000,\n') })
  await form.getByText('等级 → 属性').waitFor()
  await form.getByText('工号 → 用户编号').waitFor()
  await form.getByRole('combobox', { name: '标签' }).fill('VIP客户')
  await page.getByRole('option', { name: 'VIP客户' }).click()
  await viewer.checkAccess('import form')
  await viewer.screenshot('contact-import')
  await form.getByRole('button', { name: '开始导入' }).click()
  const row = page.getByRole('row').filter({ hasText: 'vip.csv' })
  await row.getByText('已完成').waitFor()
  await viewer.checkAccess('imports')
  await viewer.screenshot('contact-imports')
  assert.match(await fileOf(page, row.getByRole('button', { name: '下载错误：vip.csv' })), /^\uFEFF[^]*\n4,/)

  await row.getByRole('link', { name: 'VIP客户' }).click()
  await page.getByText('3 个联系人', { exact: true }).waitFor()
  await page.getByRole('row').filter({ hasText: '张三' }).getByText('等级: 金').waitFor()
  await server.api('PUT', '/api/v1/tags/已购', undefined)
  await server.api('POST', '/api/v1/tags/已购/contacts', { add: ['li'] })
  await page.reload()
  await page.getByRole('combobox', { name: '不在这些标签中' }).fill('已购')
  await page.getByRole('option', { name: '已购' }).click()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: '查询' }).click()
  await page.getByText('2 个联系人', { exact: true }).waitFor()
  await waitForCount(page.getByText('李四'), 0)
  await viewer.checkAccess('contacts by tags')
  await viewer.screenshot('contacts-tags')
  assert.match(await fileOf(page, page.getByRole('button', { name: '导出 CSV' })), /^\uFEFFuser_id,name,[^]*张三/)

  await page.getByRole('button', { name: '编辑联系人 zhao' }).click()
  await form.getByRole('button', { name: '添加属性' }).click()
  await form.getByLabel('第 1 个属性的名称').fill('城市')
  await form.getByLabel('第 1 个属性的值').fill('杭州')
  await form.getByText('VIP客户').waitFor() // the tags that hold the contact
  await viewer.checkAccess('contact with attributes')
  await viewer.screenshot('contact-form')
  await form.getByRole('button', { name: '保存' }).click()
  await page.getByRole('row').filter({ hasText: '赵六' }).getByText('城市: 杭州').waitFor()
  await page.getByRole('row').filter({ hasText: '赵六' }).locator('.el-checkbox').click()
  await page.getByRole('button', { name: '移出“VIP客户”' }).click()
  await page.getByText('1 个联系人', { exact: true }).waitFor()
  await viewer.finish()
})

test('tags are added, get contacts, have a button for a new batch, and are deleted', async () => {
  await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id: 'ann', name: 'Ann', phone: '13800138001' }] })
  const viewer = await openPage(browser, server, { language: 'en', dark: true, narrow: true, expected: [/^422 PUT \S+\/tags\//] })
  const { page } = viewer
  await viewer.signIn(admin, 'tags')
  await page.getByRole('button', { name: 'Add a tag' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Tag').fill('.new')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.locator('.el-form-item.is-error').waitFor()
  await form.getByLabel('Tag').fill('new')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('link', { name: 'new', exact: true }).click()
  await page.getByRole('button', { name: 'Add contacts to “new”' }).click()
  await form.getByLabel('User ids').fill('ann, nobody')
  await viewer.checkAccess('contacts for a tag')
  await form.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByText('1 contact was added. No such contacts: nobody').waitFor()
  await page.getByRole('row').filter({ hasText: 'Ann' }).waitFor()
  await viewer.checkAccess('contacts of a tag')
  await viewer.screenshot('contacts-tag', { fullPage: true })
  await page.getByRole('link', { name: 'Tags', exact: true }).click()
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'new', exact: true }) })
  await row.getByRole('button', { name: 'New batch to “new”' }).waitFor()
  await viewer.checkAccess('tags')
  await viewer.screenshot('tags')
  await row.getByRole('button', { name: 'Delete the tag “new”' }).click()
  await form.getByRole('button', { name: 'Delete the tag' }).click()
  await row.waitFor({ state: 'detached' })
  await viewer.finish()
})

test('a person is erased, and the page counts what was erased', async () => {
  await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id: 'leaver', phone: '13800138009' }] })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'contacts?q=leaver')
  await page.getByRole('row').filter({ hasText: 'leaver' }).locator('.el-checkbox').click()
  await page.getByRole('button', { name: 'Erase a person' }).click()
  const form = page.getByRole('dialog')
  await viewer.checkAccess('erasure form')
  await form.getByRole('button', { name: 'Erase', exact: true }).click()
  await page.getByRole('heading', { name: /^Erasure \d+/ }).getByText('Finished').waitFor()
  await page.getByRole('term').filter({ hasText: /^Contacts$/ }).locator('xpath=following-sibling::dd').getByText('1', { exact: true }).waitFor()
  await viewer.checkAccess('erasure')
  await viewer.screenshot('erasure')
  await page.getByRole('link', { name: 'Erasures' }).click()
  await page.getByRole('row').filter({ hasText: 'Contacts 1' }).waitFor()
  await viewer.finish()
})
