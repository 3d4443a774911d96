import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { admin, languages, openPage, startBrowser, startServer, waitForCount } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

test('a template is reviewed and activated, has versions, a preview and a test message, and is voided', async () => {
  const viewer = await openPage(browser, server, { expected: [/^422 POST \S+\/(preview|test)$/] })
  const { page } = viewer
  await viewer.signIn(admin, 'templates')
  await page.getByRole('button', { name: '新增模板' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByRole('textbox', { name: '名称' }).fill('登录')
  await form.getByLabel('模板编号').fill('login')
  await form.getByLabel('场景').fill('登录')
  await form.getByLabel('模板内容').fill('您的验证码是{code}')
  await form.getByLabel('签名').fill('示例公司')
  await form.getByRole('button', { name: '添加译文' }).click()
  await form.getByLabel('第 1 个译文的语言').fill('en')
  await form.getByLabel('第 1 个译文', { exact: true }).fill('Your code is {code}')
  await form.getByRole('combobox', { name: '状态' }).click({ force: true })
  await page.getByRole('option', { name: '草稿' }).click()
  await viewer.checkAccess('template form')
  await viewer.screenshot('template-form-full')
  await form.getByRole('button', { name: '保存' }).click()
  await page.getByRole('link', { name: '登录' }).click()

  const heading = page.getByRole('heading', { level: 1, name: '登录' })
  await heading.getByText('草稿').waitFor()
  await page.getByLabel('code', { exact: true }).fill('1234')
  await page.getByText('【示例公司】您的验证码是1234').waitFor()
  await page.getByRole('combobox', { name: '语言' }).click({ force: true })
  await page.getByRole('option', { name: 'en' }).click()
  await page.getByText('【示例公司】Your code is 1234').waitFor()
  await viewer.checkAccess('template')
  await viewer.screenshot('template', { fullPage: true })
  await page.getByRole('button', { name: '提交审核' }).click()
  await heading.getByText('审核中').waitFor()
  await page.getByRole('button', { name: '编辑' }).click()
  assert.equal(await form.getByLabel('模板内容').isDisabled(), true)
  await form.getByRole('button', { name: '取消' }).click()
  await page.getByRole('button', { name: '审核通过' }).click()
  await heading.getByText('已启用').waitFor()
  await page.getByRole('button', { name: '试发' }).click()
  await form.getByLabel('接收的手机号').fill('13800138000')
  await form.getByRole('button', { name: '发送测试短信' }).click()
  await page.getByRole('link', { name: /^task_/ }).waitFor()
  await page.getByRole('button', { name: '编辑' }).click()
  await form.getByLabel('模板内容').fill('验证码{code}，五分钟内有效')
  await form.getByRole('button', { name: '保存' }).click()
  const versions = page.getByRole('region', { name: '版本记录' }).getByRole('row')
  await versions.filter({ hasText: '验证码{code}，五分钟内有效' }).waitFor()
  await waitForCount(versions, 3) // a head and two versions
  await page.getByRole('button', { name: '作废' }).click()
  await form.getByRole('button', { name: '作废' }).click()
  await heading.getByText('已作废').waitFor()
  assert.equal(await page.getByRole('button', { name: '编辑' }).count(), 0)
  await viewer.finish()
  const [template] = (await server.api('GET', '/api/v1/admin/template?template_no=login')).items
  await server.api('DELETE', `/api/v1/admin/template/${template.id}`)
})

const words = {
  zh: { add: '新增模板', name: '名称', content: '模板内容', save: '保存', edit: '编辑', disable: '停用', disabled: '已停用', delete: '删除', confirm: '删除模板', none: '还没有模板', segments: '计费 1 条' },
  en: { add: 'Add a template', name: 'Name', content: 'Template text', save: 'Save', edit: 'Edit', disable: 'Disable', disabled: 'Disabled', delete: 'Delete', confirm: 'Delete the template', none: 'No templates yet', segments: '1 segment' },
}

for (const language of languages) {
  test(`a template is added, previewed, rejected if invalid, disabled and deleted (${language})`, async () => {
    const word = words[language]
    const viewer = await openPage(browser, server, { language, expected: [/^422 POST \S+\/api\/v1\/admin\/template$/] })
    const { page } = viewer
    await viewer.signIn(admin, 'templates')
    await page.getByText(word.none).waitFor()
    await viewer.checkAccess('no templates')
    await page.getByRole('button', { name: word.add }).first().click()
    const form = page.getByRole('dialog')
    await form.getByRole('textbox', { name: word.name }).first().fill('code')
    await form.getByLabel(word.content).fill('Your code is { code }')
    await form.getByRole('button', { name: word.save }).click()
    await form.locator('.el-form-item.is-error .el-form-item__error').waitFor() // the sentence of the server, at the field
    assert.match(await form.locator('.el-form-item__error').textContent(), /\{ code \}|空格|space/)
    await viewer.checkAccess('refused template')
    await form.getByLabel(word.content).fill('Your code is {code}')
    await form.getByLabel('code', { exact: true }).fill('1234')
    await form.getByText('Your code is 1234', { exact: true }).waitFor()
    await form.getByText(word.segments).waitFor()
    await viewer.checkAccess('template form')
    await viewer.screenshot('template-form')
    await form.getByRole('button', { name: word.save }).click()

    const row = page.getByRole('row').filter({ hasText: 'Your code is {code}' })
    await row.getByRole('button', { name: word.disable, exact: true }).click()
    await row.getByText(word.disabled).waitFor()
    await viewer.checkAccess('templates')
    await row.getByRole('button', { name: new RegExp(`^${word.delete}`) }).click()
    await page.getByRole('dialog').getByRole('button', { name: word.confirm, exact: true }).click()
    await page.getByText(word.none).waitFor()
    await viewer.finish()
  })
}

test('the address of the page contains the filters of a list', async () => {
  await server.api('POST', '/api/v1/admin/default-sms', { phone_number: '13800138000', content: 'Welcome' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(admin, 'default-contents')
  await page.getByText('Welcome').waitFor()
  assert.equal(await page.getByText('13800138000').count(), 0, 'numbers are masked')
  await page.getByRole('button', { name: /138\*+8000/ }).click()
  await page.getByText('13800138000').waitFor()
  await page.getByLabel('Phone number').fill('13900139000')
  await page.keyboard.press('Enter')
  await page.getByText('Nothing matches these filters').waitFor()
  assert.equal(new URL(page.url()).searchParams.get('phone_number'), '13900139000')
  await viewer.checkAccess('nothing found')
  await page.reload()
  await page.getByText('Nothing matches these filters').waitFor()
  await page.goBack()
  await page.getByText('Welcome').waitFor()
  await viewer.finish()
})
