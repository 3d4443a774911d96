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
  zh: {
    none: '现在没有告警', rules: '告警规则', add: '新增规则', kind: '规则类型', depth: '排队数量', threshold: '任务数超过', for: '持续多久才告警', resolve: '恢复多久才结束', name: '名称', save: '保存',
    alerts: '告警记录', acknowledge: '确认', remark: '备注', acknowledged: 'admin 已确认', details: '详情', nobody: '没有接收方，或者规则处于静默中', silence: '静默', silenced: '静默中', end: '结束静默', disable: '停用', disabled: '已停用',
    confirmOff: '停用', delete: '删除', confirmDelete: '删除规则', resolved: '已恢复', status: '状态', firing: '告警中', overview: '总览', firingCard: '正在告警',
    receivers: '告警接收方', noReceivers: '还没有接收方', addReceiver: '新增接收方', receiverKind: '类型', url: '地址', secret: 'Authorization 请求头', secretSet: '已设置 Authorization', removeReceiver: '删除接收方', close: '关闭此对话框',
  },
  en: {
    none: 'Nothing fires', rules: 'Alert rules', add: 'Add a rule', kind: 'Kind', depth: 'Queue depth', threshold: 'More tasks than', for: 'Fires after', resolve: 'Resolved after', name: 'Name', save: 'Save',
    alerts: 'Alerts', acknowledge: 'Acknowledge', remark: 'Remark', acknowledged: 'Acknowledged by admin', details: 'Details', nobody: 'Nobody: there is no receiver', silence: 'Silence', silenced: 'Silenced', end: 'End the silence', disable: 'Disable', disabled: 'Disabled',
    confirmOff: 'Disable', delete: 'Delete', confirmDelete: 'Delete the rule', resolved: 'Resolved', status: 'State', firing: 'Firing', overview: 'Overview', firingCard: 'Firing alerts',
    receivers: 'Receivers of alerts', noReceivers: 'No receivers yet', addReceiver: 'Add a receiver', receiverKind: 'Kind', url: 'Address', secret: 'Header Authorization', secretSet: 'Authorization is set', removeReceiver: 'Delete the receiver', close: 'Close this dialog',
  },
}

for (const language of languages) {
  test(`an alert fires, is acknowledged and is resolved (${language})`, async () => {
    const word = words[language]
    const ruleName = `test ${language}`
    const viewer = await openPage(browser, server, { language, narrow: false })
    const { page } = viewer
    await viewer.signIn(admin, 'alerts')
    await page.getByText(word.none).waitFor()
    await viewer.checkAccess('no alerts')

    // A rule by the fields of its kind.
    await page.getByRole('link', { name: word.rules, exact: true }).click()
    await page.getByRole('button', { name: word.add, exact: true }).click()
    const form = page.getByRole('dialog')
    await form.getByLabel(word.kind).click({ force: true })
    await page.getByRole('option', { name: word.depth, exact: true }).click()
    await form.getByRole('spinbutton', { name: word.threshold }).fill('0')
    await form.getByRole('spinbutton', { name: word.for }).fill('0')
    await form.getByRole('spinbutton', { name: word.resolve }).fill('0')
    await form.getByLabel(word.name, { exact: true }).fill(ruleName)
    await viewer.checkAccess('rule form')
    await viewer.screenshot('rule-form')
    await form.getByRole('button', { name: word.save }).click()
    const rule = page.getByRole('row').filter({ hasText: ruleName })
    await rule.waitFor()
    await viewer.checkAccess('rules')
    await viewer.screenshot('alert-rules')
    const [stored] = (await server.api('GET', '/api/v1/admin/alert-rules?limit=1')).items
    assert.deepEqual([stored.kind, stored.threshold, stored.for_seconds, stored.resolve_seconds, stored.receivers], ['queue_depth', 0, 0, 0, null])

    // It fires, on this page and on the overview.
    const task = await server.api('POST', '/api/v1/sms/send', { phone_number: '13800138000', content: 'hello', source: 'test' })
    await page.getByRole('link', { name: word.alerts, exact: true }).first().click()
    const alert = page.getByRole('row').filter({ hasText: ruleName })
    await alert.waitFor({ timeout: 30_000 })
    await viewer.go('')
    await page.getByRole('heading', { name: word.firingCard }).waitFor()
    await viewer.checkAccess('overview with an alert')
    await viewer.go('alerts')
    await alert.getByRole('button', { name: new RegExp(`^${word.acknowledge}`) }).click()
    await page.getByRole('dialog').getByLabel(word.remark).fill('phones are being charged')
    await page.getByRole('dialog').getByRole('button', { name: word.acknowledge, exact: true }).click()
    await alert.getByText(word.acknowledged).waitFor()
    await viewer.checkAccess('alerts')
    await viewer.screenshot('alerts')
    await alert.getByRole('button', { name: new RegExp(`^(${word.details}|.*：)`) }).first().click()
    await page.getByRole('dialog').getByText('phones are being charged').waitFor()
    await page.getByRole('dialog').getByText(word.nobody).waitFor()
    await viewer.checkAccess('alert')
    await viewer.screenshot('alert')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })

    // Silenced, and not.
    await viewer.go('alerts/rules')
    await rule.getByRole('button', { name: new RegExp(`^${word.silence}`) }).click()
    await viewer.checkAccess('silence')
    await page.getByRole('dialog').getByRole('button', { name: word.silence, exact: true }).click()
    await rule.locator('.tag', { hasText: word.silenced }).waitFor()
    await rule.getByRole('button', { name: /^(结束|End)/ }).click()
    await rule.locator('.tag', { hasText: word.silenced }).waitFor({ state: 'hidden' })

    // The condition ends, and so does the alert. What is open stays open, although the alert leaves the list of those that fire.
    await viewer.go('alerts')
    await alert.getByRole('button', { name: new RegExp(`^(${word.details}|.*：)`) }).first().click()
    await page.getByRole('dialog').locator('.tag', { hasText: word.firing }).waitFor()
    await server.api('POST', `/api/v1/sms/task/${task.task_id}/cancel`)
    await page.getByRole('dialog').locator('.tag', { hasText: word.resolved }).waitFor({ timeout: 30_000 })
    await viewer.go('alerts?status=')
    await alert.locator('.tag', { hasText: word.resolved }).waitFor({ timeout: 30_000 })

    await viewer.go('alerts/rules')
    await rule.getByRole('button', { name: new RegExp(`^${word.disable}`) }).click()
    await rule.locator('.tag', { hasText: word.disabled }).waitFor()
    await rule.getByRole('button', { name: new RegExp(`^${word.delete}`) }).click()
    await page.getByRole('dialog').getByRole('button', { name: word.confirmDelete, exact: true }).click()
    await rule.waitFor({ state: 'hidden' })
    await viewer.finish()
  })

  test(`the page does not show the secret of a receiver (${language})`, async () => {
    const word = words[language]
    const viewer = await openPage(browser, server, { language, narrow: true, dark: true, expected: [/^422 POST \S+\/api\/v1\/admin\/alert-receivers$/] })
    const { page } = viewer
    await viewer.signIn(admin, 'alerts/receivers')
    await page.getByText(word.noReceivers).waitFor()
    await viewer.checkAccess('no receivers')
    await page.getByRole('button', { name: word.addReceiver }).first().click()
    const form = page.getByRole('dialog')
    await form.getByLabel(word.receiverKind).click({ force: true })
    await page.getByRole('option', { name: 'Alertmanager' }).click()
    await form.getByLabel(word.name, { exact: true }).fill('am')
    await form.getByLabel(word.url).fill('nonsense')
    await form.getByLabel(word.secret).fill('Bearer s3cret')
    await form.getByRole('button', { name: word.save }).click()
    await form.locator('.el-form-item.is-error').waitFor() // the sentence of the server, at the field
    await viewer.checkAccess('refused receiver')
    await form.getByLabel(word.url).fill('http://127.0.0.1:9')
    await form.getByRole('button', { name: word.save }).click()
    const row = page.getByRole('row').filter({ hasText: 'http://127.0.0.1:9' })
    await row.getByText(word.secretSet).waitFor()
    assert.ok(!(await page.content()).includes('s3cret'))
    await viewer.checkAccess('receivers')
    await viewer.screenshot('receivers')
    await row.getByRole('button', { name: new RegExp(`^${word.delete}`) }).click()
    await page.getByRole('dialog').getByRole('button', { name: word.removeReceiver, exact: true }).click()
    await page.getByText(word.noReceivers).waitFor()
    await viewer.finish()
  })
}

test('a reader sees no buttons that change alert rules', async () => {
  const reader = { username: 'watcher', password: 'reader-of-all-password' }
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(reader, 'alerts/rules')
  await page.getByRole('row').filter({ hasText: 'Queue depth' }).or(page.getByRole('row').filter({ hasText: 'queue depth' })).first().waitFor()
  assert.equal(await page.locator('main table button, main .page-header button').count(), 0)
  await viewer.finish()
})
