// Takes the pictures of the README on a real server with figures of a week: npm run pictures. LKSMS_TEST_SERVER names the PostgreSQL; psql
// must be in the PATH.
import { execFileSync } from 'node:child_process'
import { openPage, startBrowser, startServer } from './harness.mjs'

// A histogram has two bytes for each bucket: its number, and how many tasks it has. 1.1^80 ms are 2 s, 1.1^95 ms are 9 s.
const histogram = (scale) => `('\\x50' || set_byte('\\x00', 0, ${scale}) || '\\x5f' || set_byte('\\x00', 0, 1 + ${scale} / 12))`
const series = (step, unit, from, most) => `
INSERT INTO statistics (step, company_id, dimension, at, key, submitted, requeued, claimed, succeeded, failed, reported_failed, cancelled, delivered, undelivered, segments, waits, durations)
SELECT '${step}', 0, 'total', at, '', n, 0, n + n / 50, n - n / 60, n / 60, n / 60, 0, n * 9 / 10, n / 90, n, ${histogram('least(120, n / 4 + 1)')}, ''
FROM (SELECT at, (${most} * (0.35 + 0.3 * sin(extract(epoch FROM at) / 13751) ^ 2 + 0.2 * abs(sin(extract(epoch FROM at) / 977))))::integer AS n
    FROM generate_series(date_trunc('${unit}', now() - interval '${from}'), date_trunc('${unit}', now()) - interval '1 ${unit}', interval '1 ${unit}') AS at) x;`

const server = await startServer()
const browser = await startBrowser()
try {
  execFileSync('psql', [server.database, '-qX', '-v', 'ON_ERROR_STOP=1'], { input: series('minute', 'minute', '70 min', 240) + series('hour', 'hour', '8 days', 14000), stdio: ['pipe', 'ignore', 'inherit'] })
  const post = (path, body) => server.api('POST', path, body)
  const claim = async (app_id, limit) => (await post('/api/v1/sms/tasks/claim', { app_id, limit }))
  await post('/api/v1/admin/senders', { sender_no: 'phone_7', name: '前台手机', limits: { per_day: 500 } })
  await post('/api/v1/admin/senders', { sender_no: 'account_1', name: '短信服务商', kind: 'log', is_shared: false, status: 'off' })
  await server.api('POST', '/api/v1/sms/send-batch', { messages: Array.from({ length: 40 }, (_, i) => ({ phone_number: `1380013${8000 + i}`, content: `您的验证码是 ${200000 + i}` })) })
  const [first, ...others] = await claim('phone_7', 12)
  const report = (task, status, more) => post('/api/v1/sms/report', { task_id: task.task_id, app_id: 'phone_7', lease_id: task.lease_id, status, ...more })
  await report(first, 3, { error_message: '无信号' })
  for (const task of others.slice(0, 8)) await report(task, 2)
  await post(`/api/v1/sms/task/${first.task_id}/requeue`, { remark: '手机已恢复信号' })
  for (const again of await claim('phone_7', 100)) await report(again, 2)
  await server.api('POST', '/api/v1/sms/send-batch', { messages: Array.from({ length: 23 }, (_, i) => ({ phone_number: `1390013${9000 + i}`, content: `您的快递已到，取件码 ${3000 + i}` })) })
  for (const language of ['zh', 'en']) {
    const viewer = await openPage(browser, server, { language })
    await viewer.signIn()
    await viewer.page.locator('canvas').nth(3).waitFor()
    await viewer.page.waitForTimeout(12_000) // rates need two moments
    await viewer.screenshot('overview')
    await viewer.go(`tasks/${first.task_id}`)
    await viewer.page.getByText('phone_7').first().waitFor()
    await viewer.screenshot('task')
    await viewer.finish()
  }
  const texts = {
    zh: [
      ['李娜', '+8613700137001', '您的快递已到东门驿站', ['可以放门口吗？', '谢谢！']],
      ['王强', '+8613700137002', '您预约的上门时间是明天 9 点', ['改到下午可以吗']],
      ['张敏', '+8613700137003', '您的订单已发货', ['大概什么时候到？', '还有，能开发票吗？']],
    ],
    en: [
      ['Alice Chen', '+8613600136001', 'Your parcel waits at the east gate', ['Can you leave it at my door?', 'Thank you!']],
      ['Ben Wu', '+8613600136002', 'We visit you tomorrow at 9', ['Is the afternoon possible?']],
      ['Carol Li', '+8613600136003', 'Your order is on its way', ['When will it arrive?', 'And can I have an invoice?']],
    ],
  }
  const answers = { zh: ['可以，快递员会放在门口。', '明天下午三点前送到。'], en: ['Yes, the courier leaves it at your door.', 'It arrives tomorrow before 3 pm.'] }
  const sent = async () => {
    for (const task of await claim('phone_7', 100)) await report(task, 2)
  }
  /** Makes the conversations of a company in one language. */
  async function converse(language) {
    const company_no = `demo-${language}`
    const user = { username: `support-${language}`, password: 'password-of-support' }
    await post('/api/v1/admin/companies', { company_no, name: company_no })
    await post('/api/v1/admin/users', { ...user, role: 'submit', company_no })
    const tag = language === 'zh' ? '会员' : 'member'
    await server.api('PUT', '/api/v1/admin/contacts', { contacts: texts[language].map(([name, phone], i) => ({ user_id: `c${i}`, name, phone })) }, user)
    await server.api('PUT', `/api/v1/tags/${encodeURIComponent(tag)}`, undefined, user)
    await server.api('POST', `/api/v1/tags/${encodeURIComponent(tag)}/contacts`, { add: ['c0', 'c2'] }, user)
    await sent()
    for (const [, phone_number, content] of texts[language]) {
      await server.api('POST', '/api/v1/sms/send', { phone_number, content }, user)
      await sent()
    }
    const receive = (from, content) => post('/api/v1/sms/received', { app_id: 'phone_7', messages: [{ from, content, sim: 1 }] })
    const [first, second, third] = texts[language]
    await receive(first[1], first[3][0])
    await server.api('POST', `/api/v1/conversations/${encodeURIComponent(first[1])}/reply`, { content: answers[language][0] }, user)
    await sent()
    await receive(first[1], first[3][1])
    await receive(second[1], second[3][0])
    await receive(third[1], third[3][0])
    await server.api('POST', `/api/v1/conversations/${encodeURIComponent(third[1])}/reply`, { content: answers[language][1] }, user)
    await sent()
    await receive(third[1], third[3][1])
    return user
  }
  const reasons = {
    zh: [['13600136101', 'marketing', '电话要求退订'], ['13600136102', 'all', '号码已换人'], ['13600136103', 'notification', '投诉过于频繁']],
    en: [['+447911123101', 'marketing', 'Asked by telephone'], ['+447911123102', 'all', 'The number has another owner'], ['+447911123103', 'notification', 'Too many reminders']],
  }
  /** Makes the blocks of a company in one language: three by a user, and two for which people asked. */
  async function block(language, user) {
    for (const [phone_number, scope, reason] of reasons[language]) await server.api('POST', '/api/v1/blocks', { phone_number, scope, reason }, user)
    for (const [phone_number, stop] of language === 'zh' ? [['13600136104', '退订'], ['13600136105', 'TD']] : [['+447911123104', 'STOP'], ['+447911123105', 'Unsubscribe, please']]) {
      await server.api('POST', '/api/v1/sms/send', { phone_number, content: language === 'zh' ? '您的快递已到' : 'Your parcel has arrived' }, user)
      await sent()
      await post('/api/v1/sms/received', { app_id: 'phone_7', messages: [{ from: phone_number, content: stop, message_no: phone_number }] })
    }
  }
  for (const language of ['zh', 'en']) {
    const user = await converse(language)
    for (const narrow of [false, true]) {
      const viewer = await openPage(browser, server, { language, narrow })
      await viewer.signIn(user, 'conversations')
      await viewer.page.locator('[data-conversation]').nth(2).waitFor()
      await viewer.page.locator('[data-conversation]').first().click()
      await viewer.page.locator('.message').nth(3).waitFor()
      await viewer.page.getByRole('textbox', { name: language === 'zh' ? '回复' : 'Reply' }).fill(language === 'zh' ? '可以，发票会随货寄出。' : 'Yes, the invoice is in the parcel.')
      await viewer.page.waitForTimeout(1000)
      await viewer.screenshot('conversations')
      await viewer.finish()
    }
    await block(language, user)
    const viewer = await openPage(browser, server, { language })
    await viewer.signIn(user, 'blocks')
    await viewer.page.getByRole('row').nth(5).waitFor()
    await viewer.screenshot('blocks')
    await viewer.finish()
  }
} finally {
  await browser.close()
  await server.stop()
}
