import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { checkNoFigures, checkReaderOfCompany, languages, openPage, startBrowser, startServer } from './harness.mjs'

let server, browser
before(async () => {
  ;[server, browser] = await Promise.all([startServer(), startBrowser()])
})
after(async () => {
  await browser?.close()
  await server?.stop()
})

const words = {
  zh: { none: '这段时间没有验证', started: '发起', conversion: '通过率', fastest: '按发送方（最快的在前）', notSent: '没有发出', id: '验证编号', show: '显示', approved: '已通过', company: '公司', release: '放行', replaced: '已被替换', delivered: '已送达', pending: '等待校验', messages: '消息', safe: '放行的号段和网络' },
  en: { none: 'No verifications in this range', started: 'Started', conversion: 'Conversion', fastest: 'By sender, the fastest first', notSent: 'Not sent', id: 'Verification id', show: 'Show', approved: 'Approved', company: 'Company', release: 'Release', replaced: 'Replaced', delivered: 'Delivered', pending: 'Pending', messages: 'Messages', safe: 'Safe prefixes and networks' },
}
/** Each width in each language, one of them dark: `[narrow, dark]`. */
const views = {
  zh: [
    [false, false],
    [true, true],
  ],
  en: [
    [false, true],
    [true, false],
  ],
}

test('the page says that no verifications exist', () => checkNoFigures(browser, server, 'codes', words))

/** Sends a code through a sender. With approve, checks it. Returns the id of the verification and the code. */
async function send(sender, phone_number, approve) {
  const { verification_id, task_id } = await server.api('POST', '/api/v1/verifications', { phone_number, purpose: 'login', language: 'en' })
  const [task] = await server.api('GET', `/api/v1/sms/tasks/pending?app_id=${sender}`)
  assert.equal(task.task_id, task_id)
  await server.api('POST', '/api/v1/sms/report', { app_id: sender, task_id, lease_id: task.lease_id, status: 2 })
  const code = /\d{6}/.exec(task.content)[0]
  if (approve) await server.api('POST', `/api/v1/verifications/${verification_id}/check`, { code })
  return { verification_id, code }
}

test('verifications are counted by hour, country, company and sender, and found by their id', async () => {
  for (const sender_no of ['phone_a', 'phone_b']) await server.api('POST', '/api/v1/admin/senders', { sender_no, name: sender_no })
  await server.api('POST', '/api/v1/admin/countries', { country_no: 'CN', name: '中国', dial_prefix: '86' })
  const { verification_id, code } = await send('phone_a', '13800138001', true)
  const codes = [code, (await send('phone_a', '13800138002', true)).code, (await send('phone_b', '13800138003', false)).code]
  await server.api('POST', '/api/v1/verifications', { phone_number: '13800138004', purpose: 'login' })
  for (const language of languages) {
    for (const [narrow, dark] of [
      [false, false],
      [false, true],
      [true, language === 'en'],
    ]) {
      const word = words[language]
      const viewer = await openPage(browser, server, { language, narrow, dark })
      const { page } = viewer
      await viewer.signIn(undefined, 'codes')
      await page.locator('figure.chart canvas').first().waitFor()
      await page.locator('dl .tile').filter({ hasText: word.started }).locator('.value', { hasText: /^4$/ }).waitFor()
      await page.locator('dl .tile').filter({ hasText: word.conversion }).locator('.value', { hasText: /^50(\.0)?%$/ }).waitFor()
      const bySender = page.locator('section').filter({ has: page.getByRole('heading', { name: word.fastest }) })
      await bySender.getByRole('row').filter({ hasText: 'phone_a' }).locator('td', { hasText: /^100(\.0)?%$/ }).waitFor()
      await bySender.getByRole('row').filter({ hasText: word.notSent }).waitFor()

      await page.getByLabel(word.id).fill(verification_id)
      await page.getByRole('button', { name: word.show, exact: true }).click()
      await page.locator('dl.facts').getByText(word.approved).waitFor()
      assert.equal(new URL(page.url()).searchParams.get('verification_id'), verification_id, 'what is asked for lives in the address')
      const shown = await page.locator('main').innerText()
      for (const one of codes) assert.ok(!new RegExp(`(?<!\\d)${one}(?!\\d)`).test(shown), 'the page shows a code')
      await viewer.checkAccess('codes')
      await viewer.screenshot(`codes${dark ? '-dark' : ''}`, { fullPage: true })
      await page.locator('dl.facts a').click()
      await page.waitForURL(/\/console\/tasks\/task_/)
      await viewer.finish()
    }
  }
})

test('the life of a verification shows whether its message arrived, and the newer one that replaced it', async (t) => {
  const provider = createServer((request, response) => request.resume().on('end', () => response.end('{"code":"0","id":"life-1"}')))
  await new Promise((resolve) => provider.listen(0, '127.0.0.1', resolve))
  t.after(() => (provider.closeAllConnections(), provider.close()))
  const secret = 'a-secret-of-16-bytes'
  await server.api('POST', '/api/v1/admin/senders', {
    sender_no: 'provider',
    name: 'provider',
    kind: 'http-sms',
    status: 'on',
    is_shared: true,
    config: {
      url: `http://127.0.0.1:${provider.address().port}/`,
      body: { to: '${recipient}', text: '${content}' },
      answer: { success: 'code', equals: ['0'], number: 'id' },
      callback: { verify: 'token', number: 'msgid', recipient: 'mobile', state: 'status', delivered: ['DELIVRD'], code: 'err', answer: { body: 'ok' } },
      callbackSecret: secret,
    },
  })
  for (const phone of ['phone_a', 'phone_b']) await server.api('PATCH', `/api/v1/admin/senders/${phone}`, { status: 'off' }) // otherwise they have a share
  await server.api('PUT', '/api/v1/admin/settings', { verification: { per_minute: 0 } })
  const start = () => server.api('POST', '/api/v1/verifications', { phone_number: '13700137001', purpose: 'login' })
  const life = (id) => server.api('GET', `/api/v1/verifications/${id}`)
  const until = async (id, isDone) => {
    for (const end = Date.now() + 30_000; !isDone(await life(id)); await new Promise((resolve) => setTimeout(resolve, 100))) assert.ok(Date.now() < end, JSON.stringify(await life(id)))
  }
  const { verification_id } = await start()
  await until(verification_id, ({ task_status }) => task_status === 2)
  const receipt = await fetch(`${server.url}/api/v1/callbacks/provider?token=${secret}`, { method: 'POST', body: '{"msgid":"life-1","status":"DELIVRD","mobile":"13700137001"}' })
  assert.equal(receipt.status, 200)
  await until(verification_id, ({ delivery }) => delivery === 'delivered')
  const newer = (await start()).verification_id
  for (const language of languages) {
    for (const [narrow, dark] of views[language]) {
      const word = words[language]
      const viewer = await openPage(browser, server, { language, narrow, dark })
      const { page } = viewer
      await viewer.signIn(undefined, `codes?verification_id=${verification_id}`)
      const facts = page.locator('dl.facts')
      await facts.locator('.tag', { hasText: word.replaced }).waitFor()
      await facts.getByText(word.messages, { exact: true }).waitFor()
      await facts.locator('.tag', { hasText: word.delivered }).waitFor()
      await viewer.checkAccess('replaced verification')
      await viewer.screenshot('codes-life', { fullPage: true })
      await facts.getByRole('link', { name: newer }).click()
      await facts.locator('.tag', { hasText: word.pending }).waitFor()
      assert.equal(new URL(page.url()).searchParams.get('verification_id'), newer)
      await viewer.finish()
    }
  }
  await server.api('POST', `/api/v1/verifications/${newer}/cancel`)
  await server.api('PATCH', '/api/v1/admin/senders/provider', { status: 'off' })
})

test('safe prefixes and networks are added with a note and an end, and removed', async () => {
  const safe = async () => (await server.api('GET', '/api/v1/admin/verifications/safe')).items
  const texts = {
    zh: { add: '放行号段或网络', subject: '号段或网络', company: '公司', note: '备注', ends: '到期时间', save: '保存', remove: '取消放行', none: '没有放行的号段和网络' },
    en: { add: 'Add a prefix or network', subject: 'Prefix or network', company: 'Company', note: 'Note', ends: 'Ends', save: 'Save', remove: 'Remove', none: 'No prefix or network is safe' },
  }
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'beta', name: 'Beta' })
  const reader = { username: 'reader_of_beta', password: 'reader-of-beta-password' }
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read', company_no: 'beta' })
  for (const language of languages) {
    for (const [narrow, dark] of views[language]) {
      const word = texts[language]
      const viewer = await openPage(browser, server, { language, narrow, dark, expected: [/^422 POST \S+\/verifications\/safe$/] })
      const { page } = viewer
      await viewer.signIn(undefined, 'codes')
      await page.getByText(word.none).waitFor()
      await page.getByRole('button', { name: word.add }).click()
      const form = page.getByRole('dialog')
      await form.getByLabel(word.subject).fill('203.0.113.0/16')
      await form.getByRole('button', { name: word.save }).click()
      await form.locator('.el-form-item.is-error').waitFor() // a network that is not counted
      await form.getByLabel(word.subject).fill('203.0.113.0/24')
      await form.getByRole('combobox', { name: word.company }).fill('beta')
      await page.keyboard.press('Enter')
      await form.getByLabel(word.note).fill('Office <b>')
      await form.getByLabel(word.ends).last().fill('2030-01-31T12:00')
      await viewer.checkAccess('form of a safe network')
      await viewer.screenshot('codes-safe-form')
      await form.getByRole('button', { name: word.save }).click()
      await form.waitFor({ state: 'hidden' })
      const row = page.getByRole('row').filter({ hasText: '203.0.113.0/24' })
      await row.getByText('Office <b>').waitFor()
      const [stored] = await safe()
      assert.deepEqual([stored.company_no, stored.expires_at], ['beta', '2030-01-31T04:00:00Z'])

      await server.api('POST', '/api/v1/admin/verifications/safe', { subject: '+49' })
      await page.getByRole('button', { name: language === 'zh' ? '刷新' : 'Refresh' }).click()
      const everywhere = page.getByRole('row').filter({ hasText: '+49' })
      await everywhere.waitFor()
      await viewer.checkAccess('safe prefixes')
      await viewer.screenshot('codes-safe', { fullPage: true })
      for (const one of [row, everywhere]) {
        await one.getByRole('button', { name: word.remove }).click()
        await page.getByRole('dialog').getByRole('button', { name: word.remove, exact: true }).click()
        await one.waitFor({ state: 'detached' })
      }
      assert.deepEqual(await safe(), [])
      await viewer.finish()
    }
  }

  // A reader of a company sees what applies to the company, and changes nothing.
  await server.api('POST', '/api/v1/admin/verifications/safe', { subject: '+49' })
  await server.api('POST', '/api/v1/admin/verifications/safe', { subject: '+4915', company_no: 'beta' })
  await server.api('POST', '/api/v1/admin/verifications/safe', { subject: '+33', company_no: 'default' })
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn(reader, 'codes')
  for (const subject of ['+4915', '+49']) await page.getByRole('cell', { name: subject, exact: true }).waitFor()
  assert.equal(await page.getByRole('cell', { name: '+33', exact: true }).count(), 0)
  for (const name of [texts.en.add, texts.en.remove]) assert.equal(await page.locator('#main').getByRole('button', { name }).count(), 0, name)
  await viewer.finish()
  for (const { safe_id } of await safe()) await server.api('DELETE', `/api/v1/admin/verifications/safe/${safe_id}`)
})

test('a suspected prefix is released, and is then in the list of safe ones', async () => {
  await server.api('PUT', '/api/v1/admin/settings', { verification: { unproven_per_day: 2 } })
  const subjects = async () => (await server.api('GET', '/api/v1/admin/verifications/suspects')).items.map(({ subject }) => subject)
  for (const language of languages) {
    const start = { zh: '1390013900', en: '1500015000' }[language]
    for (const last of [1, 2]) await server.api('POST', '/api/v1/verifications', { phone_number: start + last, purpose: 'login' })
    const until = Date.now() + 30_000
    let subject
    while (!(subject = (await subjects()).find((one) => `+86${start}`.startsWith(one))) && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 200))
    assert.ok(subject, 'a prefix is suspected')
    const viewer = await openPage(browser, server, { language, narrow: language === 'zh' })
    const { page } = viewer
    await viewer.signIn(undefined, 'codes')
    const button = page.getByRole('button', { name: new RegExp(`^${words[language].release} .*${subject.replace(/[+.]/g, '\\$&')}(?!\\d)`) })
    await button.waitFor()
    await viewer.checkAccess('suspects')
    await viewer.screenshot('codes-suspects', { fullPage: true })
    await button.click()
    await button.waitFor({ state: 'detached' })
    assert.ok(!(await subjects()).includes(subject), 'it is released')
    await page.locator('section').filter({ has: page.getByRole('heading', { name: words[language].safe }) }).getByRole('row').filter({ hasText: subject }).first().waitFor()
    await viewer.finish()
  }
})

test('a range longer than 7 days has no table of senders', async () => {
  const from = new Date(Date.now() - 20 * 86_400_000).toISOString()
  const viewer = await openPage(browser, server, { language: 'en' })
  await viewer.signIn(undefined, `codes?from=${from}&to=${new Date(Date.now() + 60_000).toISOString()}`)
  await viewer.page.getByRole('heading', { name: 'By country' }).waitFor()
  assert.equal(await viewer.page.getByRole('heading', { name: words.en.fastest }).count(), 0)
  await viewer.finish()
})

test('an unknown id shows the error of the server', async () => {
  const viewer = await openPage(browser, server, { language: 'en', expected: [/^404 GET \S+\/api\/v1\/verifications\/vrf_unknown/] })
  await viewer.signIn(undefined, 'codes?verification_id=vrf_unknown')
  await viewer.page.getByRole('alert').waitFor()
  await viewer.checkAccess('unknown verification')
  await viewer.finish()
})

test('a reader of a company cannot choose a company', () => checkReaderOfCompany(browser, server, 'codes', words))
