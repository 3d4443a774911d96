// What the pages of webhooks share.
import { api, call } from '@/api/client'
import type { Schema } from '@/api/types'
import { confirmDanger } from '@/composables/confirm'
import { attempt } from '@/composables/notify'
import { t } from '@/i18n'

export type Webhook = Schema<'Webhook'>
export type EventType = Schema<'EventType'>
export type Delivery = Schema<'WebhookDelivery'>

/** Every type of the contract, and whether webhooks of a user or a company get its events. */
const forCompanies = {
  'message.sent': true,
  'message.failed': true,
  'message.expired': true,
  'message.cancelled': true,
  'message.delivered': true,
  'message.undelivered': true,
  'message.received': true,
  'batch.finished': true,
  'notification.finished': true,
  'verification.approved': true,
  'verification.failed': true,
  'sender.silent': false,
  'sender.recovered': false,
  'sender.low_balance': false,
  'alert.firing': false,
  'alert.resolved': false,
  'alert.not_sent': false,
} satisfies Record<EventType, boolean>

/** The types that a webhook of all companies can get, or a webhook of a user or a company. */
export const eventTypes = (ofAll: boolean): EventType[] => (Object.keys(forCompanies) as EventType[]).filter((type) => ofAll || forCompanies[type])

/** The key of the text of a type: `_` replaces the dot. */
export type EventKey<Type extends string> = Type extends `${infer Kind}.${infer Event}` ? `${Kind}_${Event}` : Type

export const eventName = (type: string): string => t(`webhooks.types.${type.replaceAll('.', '_')}`)

/** Whose events the webhook gets. */
export function whose(webhook: Webhook): string {
  if (webhook.scope === 'user') return t('webhooks.ofUser', { user: webhook.username ?? '' })
  return webhook.scope === 'company' ? t('webhooks.ofCompany', { company: webhook.company_no ?? '' }) : t('webhooks.ofAll')
}

/** Why a post was not taken. */
export const failureText = ({ error, status_code }: { error: string | null; status_code: number | null }): string =>
  error === 'status' ? t('webhooks.errors.status', { status: status_code ?? '–' }) : t(`webhooks.errors.${error}`)

const path = (webhook: Webhook) => ({ path: { webhook_id: webhook.webhook_id } })

/** Switches a webhook on or off. */
export const turn = (webhook: Webhook, status: 'on' | 'off'): Promise<boolean> =>
  attempt(() => call(api.PATCH('/api/v1/webhooks/{webhook_id}', { params: path(webhook), body: { status } })), t(`webhooks.turned.${status}`))

/** Asks, and deletes a webhook. True: it is deleted. */
export const remove = (webhook: Webhook): Promise<boolean> =>
  confirmDanger({
    title: t('webhooks.delete.title'),
    text: `${webhook.url} ${t('webhooks.delete.text')}`,
    button: t('webhooks.delete.button'),
    run: () => call(api.DELETE('/api/v1/webhooks/{webhook_id}', { params: path(webhook) })),
  })
