// Blocks of phone numbers, and what the viewer may do with them.
import { api, call } from '@/api/client'
import type { Schema } from '@/api/types'
import { confirmDanger } from '@/composables/confirm'
import { mask } from '@/composables/format'
import { notify } from '@/composables/notify'
import { t } from '@/i18n'
import { can, seesAllCompanies } from '@/session'

export type Block = Schema<'Block'>
export const scopes = ['marketing', 'notification', 'all'] as const
export type Scope = (typeof scopes)[number]

export const hasEnded = (block: Block, now = Date.now()): boolean => block.expires_at !== null && new Date(block.expires_at).getTime() <= now

/** Blocks of all companies belong to the administrators. The blocks of an erased person can no longer be named. */
export const mayRemove = (block: Block): boolean => can('deleteBlock') && block.phone_number !== null && (block.company_no !== null || seesAllCompanies.value)

/** Whether the person asked for one of the blocks that are removed together with `block`: those of the number with its scope and its company. */
async function isAsked({ phone_number, scope, company_no, asked_at }: Block): Promise<boolean> {
  if (asked_at !== null || company_no === null) return asked_at !== null
  const { items } = await call(api.GET('/api/v1/blocks', { params: { query: { phone_number: phone_number!, scope, company_no } } }))
  return items.some((one) => one.company_no === company_no && one.asked_at !== null)
}

/** Asks, and removes the blocks of a number with the scope and the company of `block`. True: it was done. */
export async function removeBlock(block: Block): Promise<boolean> {
  const phone_number = block.phone_number!
  let asked: boolean
  try {
    asked = await isAsked(block)
  } catch (error) {
    notify.error(error)
    return false
  }
  const done = await confirmDanger({
    title: t('blocks.remove.title', { phone: mask(phone_number) }),
    text: t(asked ? 'blocks.remove.textAsked' : 'blocks.remove.text'),
    button: t('blocks.remove.button'),
    run: () => call(api.DELETE('/api/v1/blocks/{phone_number}', { params: { path: { phone_number }, query: { scope: block.scope, ...(block.company_no ? { company_no: block.company_no } : {}) } } })),
  })
  if (done) notify.done(t('blocks.remove.done'))
  return done
}

export interface BlockValues {
  scope: Scope
  reason: string
  expires_at: string
}
export const noValues = (): BlockValues => ({ scope: 'marketing', reason: '', expires_at: '' })

/** Adds a block. An empty company means that of the viewer, or all companies for an administrator. */
export async function addBlock(phone_number: string, company: string, { scope, reason, expires_at }: BlockValues, key: string): Promise<void> {
  const added = await call(
    api.POST('/api/v1/blocks', {
      params: { header: { 'Idempotency-Key': key } },
      body: { phone_number, scope, ...(company ? { company_no: company } : {}), ...(reason.trim() ? { reason: reason.trim() } : {}), ...(expires_at ? { expires_at } : {}) },
    }),
  )
  notify.done([t('blocks.added'), stopped(added.cancelled_tasks, added.held_tasks.length)].filter(Boolean).join(' '))
}

/** What a block stopped, in words. */
export const stopped = (cancelled: number, held: number): string =>
  [cancelled ? t('blocks.cancelled', { n: cancelled }) : '', held ? t('blocks.held', { n: held }) : ''].filter(Boolean).join(' ')
