// Measures how soon each page shows its records with a million tasks and 1,000 senders: npm run volume.
// LKSMS_TEST_SERVER names the PostgreSQL; psql must be in the PATH.
import { execFileSync } from 'node:child_process'
import { openPage, startBrowser, startServer } from './harness.mjs'

const TASKS = Number(process.env.TASKS ?? 1_000_000)
const SENDERS = Number(process.env.SENDERS ?? 1_000)
const DAYS = 7

const seed = `
SELECT task_partitions_ahead('day', now() - interval '${DAYS} days', now() + interval '1 day');
INSERT INTO companies (company_no, name) SELECT 'company-' || i, 'Company ' || i FROM generate_series(1, 100) i;
INSERT INTO senders (sender_no, name, per_day, has_balance)
SELECT 'sender-' || i, 'Sender ' || i, 100000, i % 10 = 0 FROM generate_series(1, ${SENDERS}) i;
INSERT INTO sender_states (sender_id, seen_at, balance) SELECT id, now(), CASE WHEN has_balance THEN 5000 END FROM senders WHERE sender_no LIKE 'sender-%';
INSERT INTO contacts (company_id, user_id, phone)
SELECT 1, 'person-' || i, '+86138' || lpad(i::text, 8, '0') FROM generate_series(1, 5000) i;
CREATE TEMPORARY TABLE made AS
SELECT i, 'task_' || to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD') || '_' || lpad(i::text, 26, '0') AS task_id, at, 1 + i % 101 AS company_id,
    (SELECT min(id) FROM pools) AS pool_id, '+86138' || lpad((i % 100000)::text, 8, '0') AS phone, 'sender-' || 1 + i % ${SENDERS} AS sender_no
FROM (SELECT i, now() - interval '${DAYS} days' * (${TASKS} - i) / ${TASKS} AS at FROM generate_series(1, ${TASKS}) i) x;
INSERT INTO messages (task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, priority, segments, created_at)
SELECT task_id, phone, phone, '您的验证码是' || i, 'admin', company_id, pool_id, i % 3, 5, 1, at FROM made;
INSERT INTO report_logs (task_id, company_id, app_id, lease_id, event, status, effect, outcome, result, retry_count, due_at, leased_at, lease_until, created_at, pool_id, message_type, segments, entered_at)
SELECT task_id, company_id, sender_no, nextval('lease_ids'), 'reported', CASE WHEN i % 50 = 7 THEN 3 ELSE 2 END, CASE WHEN i % 50 = 7 THEN 'failed' ELSE 'success' END,
    CASE WHEN i % 50 = 7 THEN 3 ELSE 2 END, 'x', 0, at, at + interval '1 s', at + interval '30 min', at + interval '3 s', pool_id, i % 3, 1, at
FROM made WHERE i <= ${TASKS} - 50000;
INSERT INTO queue (task_id, pool_id, due_at, company_id, message_type, priority, segments, phone_number, recipient, content)
SELECT task_id, pool_id, at, company_id, i % 3, 5, 1, phone, phone, 'x' FROM made WHERE i > ${TASKS} - 50000;
ANALYZE;
`

const paths = [
  '', 'alerts', 'alert-rules', 'alert-receivers', 'statistics', 'tasks', 'tasks?status=0', 'tasks?status=3', 'tasks/TASK', 'compose', 'notifications', 'contacts', 'templates', 'default-contents', 'phone',
  'senders', 'senders/sender-1', 'routes', 'channels', 'countries', 'companies', 'users', 'settings', 'audit', 'events', 'task-jobs', 'notification-templates', 'subscribe-messages',
]

const server = await startServer()
const browser = await startBrowser()
try {
  const started = Date.now()
  execFileSync('psql', [server.database, '-qX', '-v', 'ON_ERROR_STOP=1'], { input: seed, stdio: ['pipe', 'ignore', 'inherit'] })
  console.log(`${TASKS} tasks, ${SENDERS} senders written in ${Math.round((Date.now() - started) / 1000)} s`)
  const { items } = await server.api('GET', '/api/v1/sms/tasks?status=3&limit=1')
  // Facts of the rows above are folded first, as they would be in a service that runs for long.
  for (let n = 1; n > 0; ) {
    n = Number(execFileSync('psql', [server.database, '-qXAtc', 'SELECT count(*) FROM facts']).toString())
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  const viewer = await openPage(browser, server, { language: 'en' })
  const { page } = viewer
  await viewer.signIn()
  let slowest = 0
  for (const path of paths) {
    const to = path.replace('TASK', items[0].task_id)
    const times = []
    for (let round = 0; round < 3; round++) {
      await page.goto('about:blank')
      const from = Date.now()
      await viewer.go(to)
      await page.locator('main#main h1').first().waitFor()
      await page.waitForFunction(() => document.querySelector('#main') && !document.querySelector('#main [aria-busy=true], #main .el-loading-mask, #main .el-skeleton'))
      times.push(Date.now() - from)
    }
    const [best, middle, worst] = times.sort((a, b) => a - b)
    slowest = Math.max(slowest, middle)
    console.log(`${String(middle).padStart(6)} ms  (${best} to ${worst})  /console/${path}`)
  }
  console.log(`slowest page: ${slowest} ms`)
  await viewer.finish()
} finally {
  await browser.close()
  await server.stop()
}
