// Runs the console in chromium on a real server. A violation of the content security policy, an error in the console, an uncaught
// exception and a failed request fail the test in which they happen.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const here = path.dirname(fileURLToPath(import.meta.url))
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export const admin = { username: 'admin', password: 'console-测试-password' }

/**
 * Starts the server on an empty database of the PostgreSQL that LKSMS_TEST_SERVER names; without one, it starts its private one.
 * LKSMS_E2E_URL names a running server instead, with the password of its admin in LKSMS_E2E_PASSWORD.
 */
export async function startServer(environment = {}) {
  if (process.env.LKSMS_E2E_URL) {
    admin.password = process.env.LKSMS_E2E_PASSWORD ?? admin.password
    return describe(process.env.LKSMS_E2E_URL, undefined, async () => {})
  }
  const shared = process.env.LKSMS_TEST_SERVER
  const database = `console_${randomBytes(6).toString('hex')}`
  // As root, the server refuses data folders that others may write to.
  const data = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : tmpdir(), 'lksms-e2e-'))
  chmodSync(data, 0o755) // PostgreSQL then runs as another user, who must enter it
  const sql = (statement) => execFileSync('psql', [shared, '-qc', statement])
  if (shared) sql(`CREATE DATABASE ${database}`)
  const url = shared?.replace(/^(\w+:\/\/[^/]*\/)[^?]*/, `$1${database}`)
  const server = spawn(path.join(here, '../../bin/lksms'), ['serve'], {
    cwd: data,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      APP_PORT: '0',
      LKSMS_DATA: data,
      SECRETS_KEY_FILE: path.join(data, 'key'),
      BASIC_AUTH_USERNAME: admin.username,
      BASIC_AUTH_PASSWORD: admin.password,
      LOG_FORMAT: 'json',
      ...(url ? { DATABASE_URL: url } : {}),
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const address = await new Promise((resolve, reject) => {
    const take = (chunk) => {
      output += chunk
      const found = /^ *address +(http\S+)$/m.exec(output)
      if (found) resolve(found[1])
    }
    server.stdout.on('data', take)
    server.stderr.on('data', take)
    server.on('exit', (code) => reject(new Error(`the server ended with ${code}:\n${output}`)))
    setTimeout(() => reject(new Error(`the server did not start:\n${output}`)), 60_000).unref()
  })
  process.on('exit', (code) => {
    if (code !== 0) process.stderr.write(`the warnings and errors of the server at ${address}:\n${output.match(/^.*"level":"(WARN|ERROR)".*$/gm)?.slice(-100).join('\n')}\n`)
  })
  const started = describe(address, url, async () => {
    const ended = new Promise((resolve) => server.on('exit', resolve))
    server.kill('SIGTERM')
    await ended
    if (shared) sql(`DROP DATABASE ${database} WITH (FORCE)`)
    rmSync(data, { recursive: true, force: true })
  })
  // Otherwise marketing messages would wait if the tests run at night.
  await started.api('PUT', '/api/v1/admin/settings', { recipient: { quiet_hours_marketing: '' } })
  return started
}

function describe(url, database, stop) {
  const address = url.replace(/\/$/, '')
  return {
    url: address,
    database,
    stop,
    /** Calls the API as the admin, or as `as`, and returns the data of the envelope. */
    async api(method, route, body, as = admin) {
      const answer = await fetch(address + route, {
        method,
        headers: { Authorization: `Basic ${Buffer.from(`${as.username}:${as.password}`).toString('base64')}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      const envelope = await answer.json()
      assert.ok(answer.ok, `${method} ${route}: ${JSON.stringify(envelope)}`)
      return envelope.data
    },
  }
}

export const startBrowser = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] })

/** Words of the pages in both languages, for tests that run in each. */
export const languages = ['zh', 'en']

/** Waits until the locator finds exactly `count` elements. Rows of the former list stay visible while a list loads, thus to wait for one row is not enough. */
export async function waitForCount(locator, count) {
  const end = Date.now() + 15_000
  for (let found; (found = await locator.count()) !== count; ) {
    assert.ok(Date.now() < end, `${locator} finds ${found} elements, not ${count}`)
    await locator.page().waitForTimeout(50)
  }
}

/**
 * Opens a page of a viewer. `expected` lists the failures that the test causes on purpose, such as /401 POST .*session/.
 * `finish` closes it and fails on any other.
 */
export async function openPage(browser, server, { language = 'zh', dark = false, narrow = false, expected = [] } = {}) {
  const context = await browser.newContext({
    viewport: narrow ? { width: 390, height: 844 } : { width: 1440, height: 900 },
    locale: language === 'zh' ? 'zh-CN' : 'en-GB',
    timezoneId: 'Asia/Shanghai',
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  })
  const page = await context.newPage()
  page.setDefaultTimeout(15_000)
  const trouble = []
  // The first question of every viewer is whether a session exists.
  const allowed = [/^401 GET \S+\/api\/v1\/session$/, ...expected]
  const tell = (line) => {
    if (!allowed.some((pattern) => pattern.test(line))) trouble.push(line)
  }
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.sample}`))
  })
  page.on('console', (message) => {
    // The failed answers themselves are told below.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) tell(`console: ${message.text()}`)
    if (message.type() === 'warning') tell(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => tell(`exception: ${error.stack ?? error.message}`))
  page.on('response', (answer) => {
    if (answer.status() >= 400) tell(`${answer.status()} ${answer.request().method()} ${answer.url()}`)
  })
  page.on('requestfailed', (request) => {
    const reason = request.failure()?.errorText
    if (reason !== 'net::ERR_ABORTED') tell(`${reason} ${request.method()} ${request.url()}`) // aborted: the page was left
  })

  const viewer = {
    page,
    context,
    language,
    go: (to) => page.goto(`${server.url}/console/${to}`),
    async signIn(as = admin, to = '') {
      await viewer.go(to)
      await page.locator('input[name=username]').fill(as.username)
      await page.locator('input[name=password]').fill(as.password)
      await page.keyboard.press('Enter')
      await page.locator('main#main h1').first().waitFor()
    },
    /** Fails if the page as it is now has trouble with accessibility, or scrolls sideways. */
    async checkAccess(name) {
      // A list that loads is paler, and colors that are still moving have other contrasts.
      await page.locator('.card[aria-busy=true]').first().waitFor({ state: 'detached' })
      await page.waitForFunction(() => document.getAnimations().every((one) => one.playState !== 'running' || one.effect.getTiming().iterations === Infinity))
      const tools = await context.newCDPSession(page) // not bound by the content security policy
      await tools.send('Runtime.evaluate', { expression: axeSource })
      await tools.detach()
      const { violations } = await page.evaluate(() =>
        window.axe.run(document, {
          runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
          // Drawers and dialogs of Element Plus have a <header>, which counts as one of the page.
          rules: { 'landmark-no-duplicate-banner': { enabled: false }, 'landmark-unique': { enabled: false } },
        }),
      )
      const found = violations.map((one) => `${one.id}: ${one.help}\n${one.nodes.map((node) => `    ${node.target.join(' ')}: ${node.failureSummary?.split('\n').slice(1).join(' ')}`).join('\n')}`)
      assert.deepEqual(found, [], `accessibility of ${name} (${language}, ${dark ? 'dark' : 'light'}, ${narrow ? 390 : 1440} pixels)`)
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      assert.ok(beyond <= 0, `${name} scrolls sideways by ${beyond} pixels (${language}, ${narrow ? 390 : 1440} pixels)`)
      // On a narrow screen a row of a table is a list of labels, with the values beside them.
      const below = await page.evaluate(() =>
        [...document.querySelectorAll('td[data-label]')]
          .filter((cell) => getComputedStyle(cell).display === 'grid')
          .flatMap((cell) => [...cell.children].filter((part) => part.offsetParent && part.getBoundingClientRect().left < cell.getBoundingClientRect().left + 84).map(() => cell.dataset.label)),
      )
      assert.deepEqual(below, [], `${name} has values under their labels`)
    },
    /** Keeps a picture in e2e/screenshots, or at LKSMS_E2E_SCREENSHOTS. */
    async screenshot(name, options = {}) {
      const folder = process.env.LKSMS_E2E_SCREENSHOTS ?? path.join(here, 'screenshots')
      mkdirSync(folder, { recursive: true })
      await page.screenshot({ path: path.join(folder, `${name}-${language}-${dark ? 'dark' : 'light'}-${narrow ? 390 : 1440}.png`), ...options })
    },
    async finish() {
      await context.close()
      assert.deepEqual(trouble, [], 'what the browser complained about')
    },
  }
  return viewer
}

/** Checks in both languages that a page of figures says that nothing was counted. words: `none` by language. */
export async function checkNoFigures(browser, server, route, words) {
  for (const language of languages) {
    const viewer = await openPage(browser, server, { language })
    await viewer.signIn(undefined, route)
    await viewer.page.getByText(words[language].none).waitFor()
    await viewer.checkAccess(`no ${route}`)
    await viewer.finish()
  }
}

/** Checks that a reader of a company without figures cannot choose a company on a page. words: `none` and `company` by language. */
export async function checkReaderOfCompany(browser, server, route, words) {
  const reader = { username: 'reader', password: 'reader-of-acme-password' }
  await server.api('POST', '/api/v1/admin/companies', { company_no: 'acme', name: 'ACME' })
  await server.api('POST', '/api/v1/admin/users', { ...reader, role: 'read', company_no: 'acme' })
  const viewer = await openPage(browser, server, { language: 'zh' })
  await viewer.signIn(reader, route)
  await viewer.page.getByText(words.zh.none).waitFor()
  assert.equal(await viewer.page.getByLabel(words.zh.company, { exact: true }).count(), 0)
  await viewer.finish()
}
