import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
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

const blocksOf = async (number) => (await server.api('GET', `/api/v1/blocks?phone_number=${encodeURIComponent(number)}`)).items
const receive = (app_id, from, content) => server.api('POST', '/api/v1/sms/received', { app_id, messages: [{ from, content }] })

const words = {
  zh: {
    add: '屏蔽号码', button: '屏蔽', phone: '号码', all: '全部短信', reason: '原因', expires: '到期时间', title: '屏蔽', unblock: '解除屏蔽', csv: '导出 CSV', search: '查询', scope: '范围', blockedAll: '已屏蔽全部短信', nobody: '此号码没有被屏蔽。',
    import: '导入', importButton: '导入并屏蔽', outcome: '导入结果', close: '关闭', errors: '下载错误', cancelled: '取消了 1 条等待的短信。', marketing: '营销', back: '返回会话列表', edit: '编辑联系人 zh-person', blockedMarketing: '已屏蔽营销', asked: '是本人要求不再接收短信',
  },
  en: {
    add: 'Block a number', button: 'Block', phone: 'Phone number', all: 'All messages', reason: 'Reason', expires: 'Ends', title: 'Blocks', unblock: 'Unblock', csv: 'Export CSV', search: 'Search', scope: 'Scope', blockedAll: 'All messages blocked', nobody: 'This number is not blocked.',
    import: 'Import', importButton: 'Import and block', outcome: 'Outcome of the import', close: 'Close', errors: 'Download errors', cancelled: '1 waiting message was cancelled.', marketing: 'Marketing', back: 'Back to the conversations', edit: 'Edit the contact en-person', blockedMarketing: 'Marketing blocked', asked: 'The person asked for no more messages',
  },
}

for (const language of languages) {
  const w = words[language]
  const tail = language === 'zh' ? '1' : '2'

  test(`numbers are blocked, found, exported and unblocked, in ${language}`, async () => {
    const number = `+861380013800${tail}`
    await server.api('POST', '/api/v1/sms/send', { phone_number: number, content: 'waits' })
    const viewer = await openPage(browser, server, { language, expected: [/^422 POST \S+\/blocks$/] })
    const { page } = viewer
    await viewer.signIn(admin, 'blocks')
    await page.getByRole('heading', { level: 1, name: w.title }).waitFor()
    await viewer.checkAccess('no blocks')
    await page.getByRole('button', { name: w.add }).first().click()
    const form = page.getByRole('dialog')
    await form.getByLabel(w.phone, { exact: true }).fill('12')
    await form.getByRole('button', { name: w.button, exact: true }).click()
    await form.locator('.el-form-item.is-error').waitFor()
    await form.getByLabel(w.phone, { exact: true }).fill(`1380013800${tail}`)
    await form.locator('label').filter({ hasText: w.all }).click()
    await form.getByRole('radio', { name: w.all, checked: true }).waitFor({ state: 'attached' })
    await form.getByLabel(w.reason, { exact: true }).fill('by telephone')
    await form.getByRole('textbox', { name: w.expires }).fill('2090-01-01T00:00')
    await viewer.checkAccess('block form')
    await viewer.screenshot('block-form')
    await form.getByRole('button', { name: w.button, exact: true }).click()
    await page.getByText(w.cancelled).waitFor()
    const row = page.getByRole('row').filter({ hasText: 'by telephone' })
    await row.getByText(w.all).waitFor()
    const [block] = await blocksOf(number)
    assert.deepEqual([block.scope, block.company_no, block.expires_at], ['all', null, '2089-12-31T16:00:00Z'])
    await server.api('POST', '/api/v1/blocks', { phone_number: '+8613700137000', scope: 'marketing', company_no: 'default' })

    await page.getByLabel(w.phone, { exact: true }).fill(number)
    await page.getByRole('button', { name: w.search }).click()
    await waitForCount(page.getByRole('row'), 2) // a head and only this number
    await row.waitFor()
    assert.equal(await page.getByRole('button', { name: w.csv }).count(), 0, 'an export has no filter by number')
    await page.goBack()
    await page.getByRole('combobox', { name: w.scope }).click()
    await page.getByRole('option', { name: w.marketing }).click()
    await page.getByRole('button', { name: w.search }).click()
    await row.waitFor({ state: 'detached' })
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: w.csv }).click()])
    const text = readFileSync(await file.path(), 'utf8')
    assert.match(text, /8613700137000/)
    assert.ok(!text.includes(number.slice(1)), 'the export has the scope of the list')
    await page.goBack()
    await viewer.checkAccess('blocks')
    await viewer.screenshot('blocks')
    await row.getByRole('button', { name: w.unblock }).click()
    await page.getByRole('dialog').getByRole('button', { name: w.unblock }).click()
    await row.waitFor({ state: 'detached' })
    assert.deepEqual(await blocksOf(number), [])
    await viewer.finish()
  })

  test(`a list of numbers is blocked, and its wrong rows are shown, in ${language}`, async () => {
    const viewer = await openPage(browser, server, { language, narrow: language === 'en', dark: language === 'en' })
    const { page } = viewer
    await viewer.signIn(admin, 'blocks')
    await page.getByRole('button', { name: w.import, exact: true }).click()
    const form = page.getByRole('dialog')
    const list = `phone_number,scope\n1390013900${tail},all\n1390013901${tail},\n12,all\n`
    await form.locator('input[type=file]').setInputFiles({ name: 'blocks.csv', mimeType: 'text/csv', buffer: Buffer.from(list) })
    await form.getByText('phone_number', { exact: true }).first().waitFor()
    await viewer.checkAccess('import of blocks')
    await viewer.screenshot('blocks-import')
    await form.getByRole('button', { name: w.importButton }).click()
    const outcome = page.getByRole('dialog', { name: w.outcome })
    await outcome.getByRole('row').filter({ hasText: 'phone_number' }).getByText('4', { exact: true }).waitFor()
    await viewer.checkAccess('outcome of an import')
    await viewer.screenshot('blocks-import-outcome')
    const [file] = await Promise.all([page.waitForEvent('download'), outcome.getByRole('button', { name: w.errors }).click()])
    assert.match(readFileSync(await file.path(), 'utf8'), /^\uFEFFrow,column,error\r\n4,phone_number,/)
    await outcome.locator('footer').getByRole('button', { name: w.close }).click()
    await page.getByRole('row').nth(1).waitFor()
    assert.deepEqual((await blocksOf(`+861390013900${tail}`)).map((one) => one.scope), ['all'])
    assert.deepEqual((await blocksOf(`+861390013901${tail}`)).map((one) => one.scope), ['marketing'], 'the scope of the form')
    await viewer.finish()
  })

  test(`the pages of a conversation and a contact show blocks, in ${language}`, async () => {
    const number = `+861360013600${tail}`
    await server.api('POST', '/api/v1/sms/tasks/claim', { app_id: `${language}-phone`, limit: 1 })
    await receive(`${language}-phone`, number, 'Please no more')
    await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id: `${language}-person`, phone: number }] })
    const viewer = await openPage(browser, server, { language, narrow: language === 'zh' })
    const { page } = viewer
    await viewer.signIn(admin, 'conversations')
    await page.locator('[data-conversation]').filter({ hasText: 'Please no more' }).first().click()
    await page.locator('.message').getByText('Please no more').waitFor()
    await page.locator('[data-messages]').press('b')
    const dialog = page.getByRole('dialog')
    await dialog.getByText(w.nobody).waitFor()
    await viewer.checkAccess('blocks of a conversation')
    await viewer.screenshot('conversation-block')
    await dialog.locator('label').filter({ hasText: w.all }).click()
    await dialog.getByRole('radio', { name: w.all, checked: true }).waitFor({ state: 'attached' })
    await dialog.getByLabel(w.reason, { exact: true }).fill('asked in a conversation')
    await dialog.getByRole('button', { name: w.button, exact: true }).click()
    await dialog.getByText(w.blockedAll).waitFor()
    await viewer.checkAccess('a blocked conversation')
    await viewer.screenshot('conversation-blocked')
    assert.deepEqual((await blocksOf(number)).map((one) => [one.scope, one.company_no]), [['all', 'default']])
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: w.blockedAll }).waitFor()
    await viewer.screenshot('conversation-blocked-head')

    await viewer.go(`contacts?q=${language}-person`)
    await page.getByRole('button', { name: w.edit }).click()
    const contact = page.getByRole('dialog')
    await contact.getByText('asked in a conversation').scrollIntoViewIfNeeded()
    await viewer.checkAccess('blocks of a contact')
    await viewer.screenshot('contact-blocks')
    await contact.getByRole('button', { name: w.unblock }).click()
    await page.getByRole('dialog').filter({ hasText: /不会恢复|stay cancelled/ }).getByRole('button', { name: w.unblock, exact: true }).click()
    await contact.getByText(w.nobody).waitFor()
    assert.deepEqual(await blocksOf(number), [])

    // A block that the person asks for by a message is shown without reloading.
    await viewer.go(`conversations?company=default&number=${encodeURIComponent(number)}`)
    await page.getByRole('button', { name: w.button, exact: true }).waitFor()
    await receive(`${language}-phone`, number, 'STOP')
    await page.getByRole('button', { name: w.blockedMarketing }).waitFor()

    // Removing the block of a user removes the one that the person asked for, too: the question says so.
    await server.api('POST', '/api/v1/blocks', { phone_number: number, scope: 'marketing', company_no: 'default', reason: 'by a user' })
    await viewer.go(`blocks?phone_number=${encodeURIComponent(number)}`)
    await page.getByRole('row').filter({ hasText: 'by a user' }).getByRole('button', { name: w.unblock }).click()
    await page.getByRole('dialog').getByText(w.asked).waitFor()
    await page.getByRole('dialog').getByRole('button', { name: w.unblock }).click()
    await page.getByRole('row').filter({ hasText: 'by a user' }).waitFor({ state: 'detached' })
    assert.deepEqual(await blocksOf(number), [])
    await viewer.finish()
  })
}

test('a reader sees the blocks of its company and changes none', async () => {
  const user = { username: 'looks', password: 'password-of-looks' }
  await server.api('POST', '/api/v1/admin/users', { ...user, role: 'read', company_no: 'default' })
  await server.api('POST', '/api/v1/blocks', { phone_number: '+8613500135000', scope: 'all', company_no: 'default', reason: 'seen by readers' })
  await server.api('POST', '/api/v1/sms/tasks/claim', { app_id: 'reader-phone', limit: 1 })
  await receive('reader-phone', '+8613500135000', 'Am I blocked?')
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(user, 'blocks')
  await page.getByRole('row').filter({ hasText: 'seen by readers' }).waitFor()
  for (const name of ['Block a number', 'Import', 'Unblock']) assert.equal(await page.locator('#main').getByRole('button', { name }).count(), 0, name)
  await viewer.go('conversations?company=default&number=%2B8613500135000')
  await page.getByRole('button', { name: 'All messages blocked' }).click()
  await page.getByRole('dialog').getByText('seen by readers').waitFor()
  assert.equal(await page.getByRole('dialog').getByRole('button', { name: /^(Block|Unblock)/ }).count(), 0)
  await viewer.finish()
})
