// The programs whose bodies are known, and a body of each to try an inbound with.
import type { Schema } from '@/api/types'

export type Inbound = Schema<'Inbound'>
export type Preset = Schema<'InboundPreset'>

export const presets: Preset[] = ['alertmanager', 'grafana', 'listmonk', 'apprise', 'uptime-kuma', 'logto', 'novu', 'custom']

// They are names of programs, the same in every language.
const names: Record<Preset, string> = {
  alertmanager: 'Alertmanager',
  grafana: 'Grafana',
  listmonk: 'listmonk',
  apprise: 'Apprise',
  'uptime-kuma': 'Uptime Kuma',
  logto: 'Logto',
  novu: 'Novu',
  custom: '',
}
export const presetName = (preset: Preset, other: string): string => names[preset] || other

/** Programs whose bodies name no recipient. */
export const needsNumbers = (preset: Preset): boolean => ['alertmanager', 'grafana', 'uptime-kuma'].includes(preset)

const alert = { status: 'firing', labels: { alertname: 'HostDown', instance: 'db1' }, annotations: { summary: 'db1 does not answer' }, startsAt: '2026-11-24T10:00:00Z', fingerprint: 'c6eadffa33fcdf37' }
const group = { status: 'firing', groupKey: '{}:{alertname="HostDown"}', truncatedAlerts: 0, commonLabels: alert.labels, commonAnnotations: alert.annotations, alerts: [alert] }

const samples: Record<Preset, unknown> = {
  alertmanager: { version: '4', ...group },
  grafana: { title: '[FIRING:1] HostDown', ...group },
  listmonk: {
    subject: 'News',
    content_type: 'plain',
    body: 'A text',
    recipients: [{ uuid: '5e91dda1', email: 'li@example.com', attribs: { phone: '13800138000' } }],
    campaign: { uuid: '2e7e4b51', name: 'News' },
  },
  apprise: { version: '1.0', title: 'Backup', message: 'The backup is done', type: 'info', phone_number: '13800138000' },
  'uptime-kuma': { msg: '[db1] [Down] timeout', heartbeat: { monitorID: 1, time: '2026-11-24 10:00:00', status: 0 }, monitor: { name: 'db1' } },
  logto: { to: '8613800138000', type: 'SignIn', payload: { code: '123456' } },
  novu: { to: '+8613800138000', content: 'Your order has been shipped', sender: 'shop', id: '65f1c0ffee' },
  custom: { order: { id: 42, customer: { phone: '13800138000' } } },
}
export const sampleOf = (preset: Preset): string => JSON.stringify(samples[preset], null, 2)

/** A description to begin with: that of a program which posts the sample of `custom`. */
export const firstDescription = JSON.stringify({ number: 'order.customer.phone', text: ['Order ${order.id} is on its way'], dedup: ['order.id'] }, null, 2)
