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

const claim = (app_id) => server.api('POST', '/api/v1/sms/tasks/claim', { app_id, limit: 10 })
const receive = (app_id, from, content) => server.api('POST', '/api/v1/sms/received', { app_id, messages: [{ from, content, sim: 1 }] })

/** Waits until a sender that has polled counts as ready. */
async function ready(app_id) {
  await claim(app_id)
  for (;;) {
    const { is_ready } = await server.api('GET', `/api/v1/admin/senders/${app_id}`)
    if (is_ready) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const words = {
  zh: { title: '会话', empty: '还没有人发来短信', unread: '未读', reply: '回复', you: '您：', pending: '待发送', segments: '计费 1 条', badge: '2 个会话有未读短信', name: '张三', back: '返回会话列表', any: '用任一发送方发送', fallback: '发送方 zh-phone' },
  en: { title: 'Conversations', empty: 'Nobody has written yet', unread: 'Unread', reply: 'Reply', you: 'You: ', pending: 'Pending', segments: '1 segment', badge: '2 unread conversations', name: 'Zhang San', back: 'Back to the conversations', any: 'Send through any sender', fallback: 'sender en-phone' },
}

for (const language of languages) {
  test(`a reply is written and sent with the keyboard alone, in ${language}`, async () => {
    const w = words[language]
    const phone = `${language}-phone`
    const [first, second] = language === 'zh' ? ['+8613800138001', '+8613800138002'] : ['+8613900139001', '+8613900139002']
    await ready(phone)
    const viewer = await openPage(browser, server, { language, expected: [/^409 POST \S+\/reply$/] })
    const { page } = viewer
    await viewer.signIn(admin, 'conversations')
    if (language === 'zh') {
      await page.getByText(w.empty).waitFor()
      await viewer.checkAccess('no conversations')
    }
    await server.api('PUT', '/api/v1/admin/contacts', { contacts: [{ user_id: language, name: w.name, phone: first }] })
    await receive(phone, first, 'When do you come?')
    await receive(phone, second, 'Thank you')
    await page.getByText('Thank you').first().waitFor() // without reloading
    await page.getByTitle(w.badge).first().waitFor()
    assert.equal(await page.getByText(first).count(), 0, 'numbers are masked')
    await viewer.checkAccess('conversations')

    await page.locator('h1').first().press('j') // the second number wrote last
    await page.locator('.message').getByText('Thank you').waitFor()
    await page.keyboard.press('n') // the next unread conversation
    await page.getByRole('heading', { level: 2 }).getByText(w.name).waitFor()
    await page.locator('.message').getByText('When do you come?').waitFor()
    await page.getByTitle(w.badge).first().waitFor({ state: 'detached' })
    await viewer.checkAccess('a conversation')

    await page.keyboard.press('Enter')
    await page.keyboard.type('Tomorrow at nine')
    await page.getByText(w.segments, { exact: true }).waitFor()
    await page.keyboard.press('k')
    await page.keyboard.press('Backspace') // keys are text in the box
    await page.keyboard.press('Control+Enter')
    await page.locator('.message.out').getByText('Tomorrow at nine').waitFor()
    await page.locator('[data-conversation]').getByText(`${w.you}Tomorrow at nine`).waitFor()
    const [task] = await claim(phone)
    assert.equal(task.content, 'Tomorrow at nine')
    await server.api('POST', '/api/v1/sms/report', { task_id: task.task_id, lease_id: task.lease_id, app_id: phone, status: 2 })
    await page.locator('.message.out .tag.good').waitFor() // without reloading
    await viewer.checkAccess('an answered conversation')
    assert.equal((await server.api('GET', '/api/v1/conversations?unread=true')).items.length, 0, 'opening marks as read')

    await server.api('PATCH', `/api/v1/admin/senders/${phone}`, { status: 'off' })
    await page.keyboard.press('Enter')
    await page.keyboard.type('Still there?')
    await page.keyboard.press('Control+Enter')
    await page.getByText(w.fallback).waitFor() // what is wrong
    await viewer.checkAccess('a refused reply')
    await page.getByRole('button', { name: w.any }).click()
    await page.locator('.message.out').getByText('Still there?').waitFor()
    await server.api('PATCH', `/api/v1/admin/senders/${phone}`, { status: 'on' })
    await viewer.finish()
  })
}

test('a narrow screen shows the list, then the conversation', async () => {
  await ready('narrow-phone')
  await receive('narrow-phone', '+8613700137001', 'Hello from a narrow screen')
  for (const language of languages) {
    const w = words[language]
    const viewer = await openPage(browser, server, { language, narrow: true, dark: language === 'en' })
    const { page } = viewer
    await viewer.signIn(admin, 'conversations')
    await page.locator('[data-conversation]').first().waitFor()
    await viewer.checkAccess('narrow conversations')
    await page.locator('[data-conversation]').filter({ hasText: 'narrow screen' }).click()
    await page.locator('.message').getByText('Hello from a narrow screen').waitFor()
    await page.getByRole('textbox', { name: w.reply }).fill('Not sent yet')
    await viewer.checkAccess('narrow conversation')
    await page.getByRole('button', { name: w.back }).click()
    await page.getByRole('heading', { level: 1, name: w.title }).waitFor()
    await page.locator('[data-conversation]').filter({ hasText: 'narrow screen' }).click()
    assert.equal(await page.getByRole('textbox', { name: w.reply }).inputValue(), 'Not sent yet', 'a draft stays')
    await page.goBack()
    await page.locator('[data-conversation]').first().waitFor()
    await viewer.finish()
  }
})

test('a submitter sees only its own conversations, and a reader cannot reply', async () => {
  const user = { username: 'support', password: 'password-of-support' }
  await server.api('POST', '/api/v1/admin/users', { ...user, role: 'submit' })
  await server.api('POST', '/api/v1/admin/users', { username: 'looks', password: 'password-of-looks', role: 'read' })
  await ready('own-phone')
  const { task_id } = await server.api('POST', '/api/v1/sms/send', { phone_number: '+8613600136001', content: 'Your order' }, user)
  const [task] = await claim('own-phone')
  assert.equal(task.task_id, task_id)
  await receive('own-phone', '+8613600136001', 'An answer')
  await receive('own-phone', '10690', 'No answer to anything')
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(user, 'conversations')
  await page.locator('[data-conversation]').getByText('An answer').waitFor()
  assert.equal(await page.locator('[data-conversation]').count(), 1)
  await receive('own-phone', '+8613600136001', 'Another answer')
  await page.locator('[data-conversation]').getByText('Another answer').waitFor() // without figures, the page asks
  await viewer.finish()
  const reader = await openPage(browser, server, { language: 'en' })
  await reader.signIn({ username: 'looks', password: 'password-of-looks' }, 'conversations')
  await reader.page.locator('[data-conversation]').getByText('No answer to anything').click()
  await reader.page.locator('.message').getByText('No answer to anything').waitFor()
  assert.equal(await reader.page.getByRole('textbox').count(), 0)
  await reader.finish()
})
