// A form: its values, the sentences of the server at its fields, and its one request at a time.
import { inject, onScopeDispose, provide, reactive, ref, shallowRef, computed, nextTick, type InjectionKey } from 'vue'
import { ApiError, asApiError, newKey } from '@/api/client'
import { t } from '@/i18n'
import { confirmDanger } from './confirm'

export interface FormState {
  /** The sentence of the server for each wrong field. */
  errors: Record<string, string>
  /** The names of the fields that show their own error. */
  shown: Set<string>
  /** An error that belongs to no shown field. */
  error: ApiError | null
  /** Sentences for fields that the form does not show. */
  unplaced: string[]
  busy: boolean
}

const formKey: InjectionKey<FormState> = Symbol('form')

/** The form around a field. */
export const useFormAround = (): FormState | undefined => inject(formKey, undefined)

// Tells of each form whether it shows values that would be lost.
const forms = new Set<() => boolean>()

const isUnsaved = () => [...forms].some((isTyped) => isTyped())

/** Whether forms may be left: the viewer is asked if values would be lost. */
export const mayLeaveForms = async (): Promise<boolean> =>
  !isUnsaved() || confirmDanger({ title: t('common.form.unsaved'), text: t('common.form.leaveText'), button: t('common.form.discard'), run: async () => {} })

/** Lets the page be left without a question. */
export const forgetForms = () => forms.clear()

addEventListener('beforeunload', (event) => {
  if (isUnsaved()) event.preventDefault()
})

export interface FormOptions<V extends object> {
  values: () => V
  /** Sends the values. `key` belongs in the header Idempotency-Key of a creating request: the same values send the same key again. */
  send: (values: V, key: string) => Promise<unknown>
}

export function useForm<V extends object>(options: FormOptions<V>) {
  const values = reactive(options.values()) as V
  const errors = reactive<Record<string, string>>({})
  const shown = reactive(new Set<string>())
  const error = shallowRef<ApiError | null>(null)
  const busy = ref(false)
  let key = newKey()
  let sent = ''
  let original = JSON.stringify(values)

  function forget() {
    for (const name of Object.keys(errors)) delete errors[name]
    error.value = null
  }

  /** Fills the form anew. */
  function reset(now: V = options.values()) {
    for (const name of Object.keys(values)) delete (values as Record<string, unknown>)[name]
    Object.assign(values, now)
    original = JSON.stringify(values)
    key = newKey()
    forget()
  }

  /** Sends the form. False: the form shows what is wrong. */
  async function submit(): Promise<boolean> {
    if (busy.value) return false
    busy.value = true
    forget()
    const body = JSON.stringify(values)
    if (body !== sent) key = newKey()
    sent = body
    try {
      await options.send(values, key)
      key = newKey()
      original = JSON.stringify(values)
      return true
    } catch (caught) {
      const failure = asApiError(caught)
      if (failure.status === 401) return false // the viewer signs in again and sends the form again
      Object.assign(errors, failure.fields)
      if (!Object.keys(failure.fields).some((name) => shown.has(name))) error.value = failure
      await nextTick()
      const wrong = document.querySelector<HTMLElement>('.el-form-item.is-error :is(input, textarea, select, button)')
      for (let around = wrong?.closest('details'); around; around = around.parentElement?.closest('details')) around.open = true
      wrong?.focus()
      return false
    } finally {
      busy.value = false
    }
  }

  const form = reactive({
    values,
    errors,
    shown,
    error,
    unplaced: computed(() => Object.entries(errors).flatMap(([name, sentence]) => (shown.has(name) ? [] : [`${name}: ${sentence}`]))),
    busy,
    changed: computed(() => JSON.stringify(values) !== original),
    reset,
    submit,
  })
  provide(formKey, form as FormState)
  const isTyped = () => form.changed && shown.size > 0 // the values of a closed drawer are of no use
  forms.add(isTyped)
  onScopeDispose(() => forms.delete(isTyped))
  return form
}

/** Keeps Enter in a field of one line from submitting a form that sends something to people. */
export function keepFromSending(event: KeyboardEvent) {
  if (event.target instanceof HTMLInputElement) event.preventDefault()
}
