// The states of a template, and which may follow which (internal/dispatch/template).
import type { Schema } from '@/api/types'
import type { Tone } from '@/components/StatusTag.vue'

export type Template = Schema<'Template'>
export type TemplateStatus = Schema<'TemplateStatus'>

export const templateStatuses: TemplateStatus[] = ['draft', 'in_review', 'active', 'disabled', 'voided']

export const templateTones: Record<TemplateStatus, Tone> = { draft: 'idle', in_review: 'warn', active: 'good', disabled: 'idle', voided: 'bad' }

/** The states that may follow, but voided, which may follow each. */
export const following: Record<TemplateStatus, TemplateStatus[]> = { draft: ['in_review'], in_review: ['active', 'draft'], active: ['disabled'], disabled: ['active', 'draft'], voided: [] }
