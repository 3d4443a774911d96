// Every page group has a file src/pages/<group>/routes.ts that exports `pages`. This file collects them.
import { watch } from 'vue'
import { createRouter, createWebHistory, type RouteRecordRaw } from 'vue-router'
import { base } from '@/base'
import { forgetForms, mayLeaveForms } from '@/composables/form'
import { recall, recalled } from '@/composables/remember'
import { language, t } from '@/i18n'
import { can, restore, session } from '@/session'
import type { PageDefinition } from './page'

const groups = import.meta.glob<PageDefinition[]>('../pages/*/routes.ts', { eager: true, import: 'pages' })

export const pages: PageDefinition[] = Object.values(groups).flat()

/** Whether the user may open the page. */
export const mayOpen = (page: PageDefinition): boolean => page.operations.every(can)

const byName = new Map(pages.map((page) => [page.name, page]))

const record = (page: PageDefinition): RouteRecordRaw => ({ path: page.path, name: page.name, component: page.component })

export const router = createRouter({
  history: createWebHistory(`${base}/console/`),
  scrollBehavior: (to, from, saved) => saved ?? (to.path === from.path ? undefined : { top: 0 }),
  routes: [
    { path: '/sign-in', name: 'sign-in', component: () => import('@/pages/account/SignInPage.vue') },
    {
      path: '/',
      component: () => import('@/layout/AppShell.vue'),
      children: [
        { path: '', name: 'home', component: () => import('@/pages/account/HomePage.vue') },
        ...pages.map(record),
        { path: ':path(.*)*', name: 'not-found', component: () => import('@/pages/account/NotFoundPage.vue') },
      ],
    },
  ],
})

let restored = false

router.beforeEach(async (to, from) => {
  if (to.path !== from.path && !(await mayLeaveForms())) return false
  if (!restored) {
    try {
      await restore()
      restored = true
    } catch {
      // The sign-in page shows that the server does not answer. The next navigation tries again.
    }
  }
  if (to.name === 'sign-in') return session.value ? back(to.query.back) : true
  if (!session.value) return { name: 'sign-in', query: to.fullPath === '/' ? {} : { back: to.fullPath } }
  const page = byName.get(to.name as string)
  if (page && !mayOpen(page)) return { name: 'not-found', params: { path: to.path.slice(1).split('/') }, query: {} }
  if (to.name === 'home') return first() ?? true
  return true
})

/** Where the viewer goes after signing in: to the page that asked for it. */
export function back(path: unknown) {
  return typeof path === 'string' && path.startsWith('/') && !path.startsWith('//') ? path : { name: 'home' }
}

function first() {
  const page = navigation()[0]?.pages[0]
  return page && { name: page.name }
}

/** The sections of the side navigation, in their order. */
export const sections = ['watch', 'messages', 'delivery', 'administration'] as const

/** The pages of the side navigation that the user may open, by section. */
export function navigation() {
  return sections
    .map((section) => ({
      section,
      pages: pages.filter((page) => page.nav?.section === section && mayOpen(page)).sort((a, b) => a.nav!.order - b.nav!.order),
    }))
    .filter(({ pages }) => pages.length > 0)
}

function title() {
  const page = byName.get(router.currentRoute.value.name as string)
  document.title = page ? `${t(page.title)} · LKSMS` : 'LKSMS'
}

router.afterEach(title)
watch(language, title)

// A server that was upgraded has the files of other pages than those that this one names: load the page anew, once.
let isOutdated = false
addEventListener('vite:preloadError', () => (isOutdated = true))
router.onError((_, to) => {
  const address = router.resolve(to).href
  if (!isOutdated || recalled('reloaded') === address) return
  recall('reloaded', address)
  forgetForms() // the viewer was asked before
  location.assign(address)
})
router.afterEach((_, __, failure) => {
  if (!failure) recall('reloaded', '')
})
