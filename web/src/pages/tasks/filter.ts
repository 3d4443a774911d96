// The filters of the list of tasks, as they stand in the address, as the API takes them, and in words.
import type { Schema } from '@/api/types'
import { openRange } from '@/components/TimeRange.vue'
import { formatTime, mask } from '@/composables/format'
import { t } from '@/i18n'

/** The filters in the address. `range`, `from` and `to` limit the time at which a task was created. */
export const filterNames = ['phone_number', 'status', 'range', 'from', 'to', 'company_no', 'message_type', 'sender_no', 'delivery', 'source', 'result', 'batch_id', 'test', 'country_no', 'template_no', 'submitted_by', 'provider_no'] as const
export type FilterName = (typeof filterNames)[number]
export type AddressFilters = Partial<Record<FilterName, string>>
export type TaskFilter = Schema<'TaskJobFilter'>

/** The filters as the API takes them. */
export function taskFilter({ status, range, from, to, phone_number, company_no, message_type, sender_no, delivery, source, result, batch_id, test, country_no, template_no, submitted_by, provider_no }: AddressFilters): TaskFilter {
  const times = openRange({ range, from, to })
  return {
    ...(phone_number ? { phone_number } : {}),
    ...(status ? { status: Number(status) as Schema<'TaskStatus'> } : {}),
    ...(company_no ? { company_no } : {}),
    ...(message_type ? { message_type: message_type as Schema<'MessageType'> } : {}),
    ...(sender_no ? { sender_no } : {}),
    ...(delivery ? { delivery: delivery as NonNullable<TaskFilter['delivery']> } : {}),
    ...(source ? { source } : {}),
    ...(result ? { result } : {}),
    ...(batch_id ? { batch_id: Number(batch_id) } : {}),
    ...(test ? { test: test === 'true' } : {}),
    ...(country_no ? { country_no } : {}),
    ...(template_no ? { template_no } : {}),
    ...(submitted_by ? { submitted_by } : {}),
    ...(provider_no ? { provider_no } : {}),
    ...(times.from ? { created_from: times.from } : {}),
    ...(times.to ? { created_to: times.to } : {}),
  }
}

/** A filter of the API as the address of the list has it. */
export function addressOf({ created_from, created_to, status, batch_id, test, ...rest }: TaskFilter): Record<string, string> {
  return {
    ...(rest as Record<string, string>),
    ...(status === undefined ? {} : { status: String(status) }),
    ...(batch_id === undefined ? {} : { batch_id: String(batch_id) }),
    ...(test === undefined ? {} : { test: String(test) }),
    ...(created_from ? { from: created_from } : {}),
    ...(created_to ? { to: created_to } : {}),
  }
}

/** Each condition of a filter in words. */
export function filterWords(filter: TaskFilter): string[] {
  const words: [keyof TaskFilter, string | undefined][] = [
    ['status', filter.status === undefined ? undefined : t(`common.task.${filter.status}`)],
    ['phone_number', filter.phone_number && mask(filter.phone_number)],
    ['company_no', filter.company_no],
    ['message_type', filter.message_type && t(`common.messageType.${filter.message_type}`)],
    ['sender_no', filter.sender_no],
    ['delivery', filter.delivery && t(`tasks.delivery.${filter.delivery}`)],
    ['source', filter.source],
    ['result', filter.result],
    ['batch_id', filter.batch_id?.toString()],
    ['test', filter.test === undefined ? undefined : t(filter.test ? 'common.yes' : 'common.no')],
    ['country_no', filter.country_no],
    ['template_no', filter.template_no],
    ['submitted_by', filter.submitted_by],
    ['provider_no', filter.provider_no],
    ['created_from', filter.created_from && formatTime(filter.created_from)],
    ['created_to', filter.created_to && formatTime(filter.created_to)],
  ]
  return words.flatMap(([name, value]) => (value ? [t('tasks.condition', { name: t(`tasks.filters.${name}`), value })] : []))
}

/** Whether a text looks like a phone number. */
export const isPhone = (text: string): boolean => text.length <= 50 && !/\p{L}/u.test(text) && /\p{Nd}/u.test(text)
