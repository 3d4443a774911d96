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
  zh: { title: '规则', add: '添加规则', match: '匹配方式', regexp: '正则表达式', words: '词', action: '动作', tag: '加标签', tagName: '标签', content: '答复内容', sign: '签名', save: '保存', try: '试一条短信', tryButton: '试一试', none: '没有规则匹配。', edit: '编辑规则', remove: '删除规则' },
  en: { title: 'Rules', add: 'Add a rule', match: 'Match', regexp: 'Regular expression', words: 'Words', action: 'Action', tag: 'Add a tag', tagName: 'Tag', content: 'Text of the reply', sign: 'Signature', save: 'Save', try: 'Try a message', tryButton: 'Try', none: 'No rule matches.', edit: 'Edit rule', remove: 'Delete the rule' },
}

for (const language of languages) {
  const w = words[language]

  test(`rules are added, tried, changed and deleted, in ${language}`, async () => {
    const viewer = await openPage(browser, server, { language, expected: [/^422 POST \S+\/reply-rules$/] })
    const { page } = viewer
    await viewer.signIn(admin, 'rules')
    await page.getByRole('heading', { level: 1, name: w.title }).waitFor()
    await viewer.checkAccess('no rules')
    await page.getByRole('button', { name: w.add }).first().click()
    const form = page.getByRole('dialog')
    const choose = async (label, option) => {
      await form.getByRole('combobox', { name: label }).click({ force: true })
      await page.getByRole('option', { name: option }).click()
    }
    await choose(w.match, w.regexp)
    await form.getByLabel(w.words, { exact: true }).fill('(hours')
    await form.getByLabel(w.content, { exact: true }).fill('We are open')
    await form.getByLabel(w.sign, { exact: true }).fill('Shop')
    await form.getByRole('button', { name: w.save, exact: true }).click()
    await form.locator('.el-form-item.is-error').waitFor()
    await viewer.checkAccess('rule form')
    await viewer.screenshot('rule-form')
    await form.getByLabel(w.words, { exact: true }).fill('^hours\n营业时间')
    await form.getByRole('button', { name: w.save, exact: true }).click()
    const row = page.getByRole('row').filter({ hasText: 'We are open' })
    await row.waitFor()
    assert.equal((await server.api('GET', '/api/v1/reply-rules')).items[0].sign, 'Shop')

    await page.getByLabel(w.try).fill('Hours, please')
    await page.getByRole('button', { name: w.tryButton, exact: true }).click()
    await page.getByRole('status').filter({ hasText: 'We are open' }).waitFor()
    await page.getByLabel(w.try).fill('nothing')
    await page.getByRole('button', { name: w.tryButton, exact: true }).click()
    await page.getByText(w.none).waitFor()
    await viewer.checkAccess('rules')
    await viewer.screenshot('rules')

    await row.getByRole('button', { name: w.edit }).click()
    await choose(w.action, w.tag)
    await form.getByLabel(w.tagName, { exact: true }).fill('asked')
    await form.getByRole('button', { name: w.save, exact: true }).click()
    const changed = page.getByRole('row').filter({ hasText: 'asked' })
    await changed.waitFor()
    const [rule] = (await server.api('GET', '/api/v1/reply-rules')).items
    assert.deepEqual([rule.action, rule.tag, rule.content, rule.sign, rule.words], ['tag', 'asked', null, null, ['^hours', '营业时间']])
    await changed.getByRole('button', { name: w.remove.split(' ')[0] }).click()
    await page.getByRole('dialog').getByRole('button', { name: w.remove }).click()
    await changed.waitFor({ state: 'detached' })
    assert.deepEqual((await server.api('GET', '/api/v1/reply-rules')).items, [])
    await viewer.finish()
  })
}
