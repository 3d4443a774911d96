// Rules about received messages.
import type { Schema } from '@/api/types'
import { mask } from '@/composables/format'
import { t } from '@/i18n'

export type Rule = Schema<'ReplyRule'>
export const matches = ['exact', 'prefix', 'contains', 'regexp'] as const satisfies Schema<'ReplyMatch'>[]
export const actions = ['reply', 'tag', 'untag', 'opt_out', 'opt_in', 'forward', 'acknowledge'] as const satisfies Schema<'ReplyAction'>[]

/** What a rule sends or changes, in one line. */
export function detailOf(rule: Rule): string {
  switch (rule.action) {
    case 'reply':
      return rule.content ?? t('rules.template', { no: rule.template_no ?? '' })
    case 'tag':
    case 'untag':
      return rule.tag ?? ''
    case 'forward':
      return [...(rule.phone_numbers ?? []).map(mask), ...(rule.webhook_id === null ? [] : [t('rules.webhook', { no: rule.webhook_id })])].join(', ')
    default:
      return ''
  }
}
