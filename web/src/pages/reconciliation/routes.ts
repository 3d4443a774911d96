import { Calendar, Finished } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'daily-totals',
    path: 'daily-totals',
    component: () => import('./DailyTotalsPage.vue'),
    title: 'dailyTotals.title',
    operations: ['listDailyTotals'],
    nav: { section: 'watch', order: 40, icon: Calendar },
  },
  {
    name: 'reconciliations',
    path: 'reconciliations',
    component: () => import('./ReconciliationsPage.vue'),
    title: 'reconciliations.title',
    operations: ['listReconciliations'],
    nav: { section: 'watch', order: 45, icon: Finished },
  },
  {
    name: 'reconciliation',
    path: 'reconciliations/:id(\\d+)',
    component: () => import('./ReconciliationPage.vue'),
    title: 'reconciliations.one',
    operations: ['getReconciliation'],
  },
]
