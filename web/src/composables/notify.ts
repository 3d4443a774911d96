// Short messages at the top of the page.
import { ElMessage } from 'element-plus/es/components/message/index'
import 'element-plus/es/components/message/style/css'
import { h } from 'vue'
import { asApiError } from '@/api/client'
import { t } from '@/i18n'

export const notify = {
  done: (message: string) => void ElMessage({ type: 'success', message, plain: true, duration: 3500 }),
  /** Tells of a failed request; it stays until it is closed, because its request_id is needed when asking for help. */
  error: (caught: unknown) => {
    const error = asApiError(caught)
    if (error.status === 401) return // the viewer signs in again
    const details = Object.entries(error.fields).map(([name, sentence]) => `${name}: ${sentence}`)
    const id = error.requestId ? t('common.error.requestId', { id: error.requestId }) : ''
    const text = [error.message, ...details, id].filter(Boolean).join(' ')
    const page = error.page ? h('a', { href: error.page, target: '_blank', rel: 'noopener' }, t('common.error.docs')) : ''
    ElMessage({ type: 'error', message: h('p', { class: 'el-message__content' }, [text, ' ', page]), plain: true, showClose: true, duration: 0 })
  },
}

/** Runs an act of a button: a failure is told, and true means that it worked. */
export async function attempt(act: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await act()
    if (done) notify.done(done)
    return true
  } catch (error) {
    notify.error(error)
    return false
  }
}
